//! The layers of a BERT model, and the mean of what comes out of them.

use std::ops::Range;

use ndarray::linalg::general_mat_mul;
use ndarray::{Array1, Array2, ArrayView2, ArrayViewMut1, Axis, Slice};

use super::ModelFileError;
use super::tensors::Tensors;

/// The width of one head of attention. All models of this family have it.
const HEAD_WIDTH: usize = 32;
const NORM_MIN: f32 = 1e-12;

/// A model's weights.
pub(super) struct Bert {
    words: Array2<f32>,
    places: Array2<f32>,
    kind: Array1<f32>,
    norm: Norm,
    layers: Vec<Layer>,
}

struct Layer {
    query: Linear,
    key: Linear,
    value: Linear,
    attended: Linear,
    attended_norm: Norm,
    wide: Linear,
    narrow: Linear,
    norm: Norm,
}

struct Linear {
    /// A column for each number that comes out.
    weight: Array2<f32>,
    bias: Array1<f32>,
}

struct Norm {
    weight: Array1<f32>,
    bias: Array1<f32>,
}

impl Bert {
    pub(super) fn read(tensors: &Tensors<'_>) -> Result<Self, ModelFileError> {
        let words = tensors.table("embeddings.word_embeddings.weight")?;
        let width = words.ncols();
        let places = tensors.table("embeddings.position_embeddings.weight")?;
        let kinds = tensors.table("embeddings.token_type_embeddings.weight")?;
        let wrong = |what: &str| ModelFileError::Shape(format!("{what} do not fit the words"));
        if width == 0 || !width.is_multiple_of(HEAD_WIDTH) || places.ncols() != width {
            return Err(wrong("the widths"));
        }
        if kinds.nrows() == 0 || kinds.ncols() != width || places.nrows() < super::PIECES_MAX {
            return Err(wrong("the places"));
        }
        let mut layers = Vec::new();
        while let Ok(layer) = Layer::read(tensors, layers.len(), width) {
            layers.push(layer);
        }
        if layers.is_empty() {
            // Says what is wrong with it.
            layers.push(Layer::read(tensors, 0, width)?);
        }
        let norm = Norm::read(tensors, "embeddings.LayerNorm", width)?;
        Ok(Self { words, places, kind: kinds.row(0).to_owned(), norm, layers })
    }

    pub(super) fn vocabulary_size(&self) -> usize {
        self.words.nrows()
    }

    /// The mean of what comes out for the pieces of each text, of length 1.
    pub(super) fn vectors(&self, texts: &[Vec<u32>]) -> Vec<Vec<f32>> {
        let rows = texts.iter().map(Vec::len).sum();
        // All texts stand below one another: only attention tells them apart.
        let mut states = Array2::zeros((rows, self.words.ncols()));
        let pieces = texts.iter().flat_map(|pieces| pieces.iter().enumerate());
        for ((place, piece), mut state) in pieces.zip(states.rows_mut()) {
            state += &self.words.row(*piece as usize);
            state += &self.places.row(place);
            state += &self.kind;
        }
        self.norm.apply(&mut states);
        for layer in &self.layers {
            layer.apply(&mut states, texts);
        }
        let mut first = 0;
        let mean = |pieces: &Vec<u32>| {
            let rows = first..first + pieces.len();
            first = rows.end;
            let mean = states.slice_axis(Axis(0), Slice::from(rows)).sum_axis(Axis(0));
            let length = mean.dot(&mean).sqrt().max(NORM_MIN);
            (mean / length).to_vec()
        };
        texts.iter().map(mean).collect()
    }
}

impl Layer {
    fn read(tensors: &Tensors<'_>, number: usize, width: usize) -> Result<Self, ModelFileError> {
        let name = |part: &str| format!("encoder.layer.{number}.{part}");
        let linear = |part: &str| Linear::read(tensors, &name(part));
        let norm = |part: &str| Norm::read(tensors, &name(part), width);
        let layer = Self {
            query: linear("attention.self.query")?,
            key: linear("attention.self.key")?,
            value: linear("attention.self.value")?,
            attended: linear("attention.output.dense")?,
            attended_norm: norm("attention.output.LayerNorm")?,
            wide: linear("intermediate.dense")?,
            narrow: linear("output.dense")?,
            norm: norm("output.LayerNorm")?,
        };
        let inner = layer.wide.weight.ncols();
        let squares = [&layer.query, &layer.key, &layer.value, &layer.attended];
        let fits = squares.iter().all(|linear| linear.weight.dim() == (width, width))
            && layer.wide.weight.nrows() == width
            && layer.narrow.weight.dim() == (inner, width);
        if fits {
            Ok(layer)
        } else {
            Err(ModelFileError::Shape(format!("layer {number} has other widths")))
        }
    }

    fn apply(&self, states: &mut Array2<f32>, texts: &[Vec<u32>]) {
        let query = self.query.apply(states);
        let key = self.key.apply(states);
        let value = self.value.apply(states);
        let mut mixed = Array2::zeros(states.dim());
        let mut first = 0;
        for pieces in texts {
            let rows = first..first + pieces.len();
            first = rows.end;
            for column in (0..states.ncols()).step_by(HEAD_WIDTH) {
                let head = |of| head(of, rows.clone(), column);
                let mut attention = head(&query).dot(&head(&key).t());
                attention /= (HEAD_WIDTH as f32).sqrt();
                attention.rows_mut().into_iter().for_each(share);
                let mut mixed = mixed.slice_axis_mut(Axis(0), Slice::from(rows.clone()));
                let columns = Slice::from(column..column + HEAD_WIDTH);
                let mut mixed = mixed.slice_axis_mut(Axis(1), columns);
                general_mat_mul(1.0, &attention, &head(&value), 0.0, &mut mixed);
            }
        }
        *states += &self.attended.apply(&mixed);
        self.attended_norm.apply(states);
        let mut wide = self.wide.apply(states);
        wide.mapv_inplace(gelu);
        *states += &self.narrow.apply(&wide);
        self.norm.apply(states);
    }
}

impl Linear {
    fn read(tensors: &Tensors<'_>, name: &str) -> Result<Self, ModelFileError> {
        let weight = tensors.table(&format!("{name}.weight"))?;
        let bias = tensors.list(&format!("{name}.bias"))?;
        if weight.nrows() != bias.len() {
            return Err(ModelFileError::Shape(format!("{name} has another width than its bias")));
        }
        Ok(Self { weight: weight.t().as_standard_layout().into_owned(), bias })
    }

    fn apply(&self, states: &Array2<f32>) -> Array2<f32> {
        let mut result = Array2::zeros((states.nrows(), self.bias.len()));
        result += &self.bias;
        general_mat_mul(1.0, states, &self.weight, 1.0, &mut result);
        result
    }
}

impl Norm {
    fn read(tensors: &Tensors<'_>, name: &str, width: usize) -> Result<Self, ModelFileError> {
        let list = |part: &str| tensors.list(&format!("{name}.{part}"));
        let norm = Self { weight: list("weight")?, bias: list("bias")? };
        if norm.weight.len() == width && norm.bias.len() == width {
            Ok(norm)
        } else {
            Err(ModelFileError::Shape(format!("{name} has another width")))
        }
    }

    fn apply(&self, states: &mut Array2<f32>) {
        let width = states.ncols() as f32;
        for mut state in states.rows_mut() {
            let mean = state.sum() / width;
            state -= mean;
            let deviation = (state.dot(&state) / width + NORM_MIN).sqrt();
            state /= deviation;
            state *= &self.weight;
            state += &self.bias;
        }
    }
}

/// What one head sees of a text.
fn head(of: &Array2<f32>, rows: Range<usize>, column: usize) -> ArrayView2<'_, f32> {
    let columns = column..column + HEAD_WIDTH;
    let mut head = of.slice_axis(Axis(0), Slice::from(rows));
    head.slice_axis_inplace(Axis(1), Slice::from(columns));
    head
}

/// Turns numbers into shares that sum to 1.
fn share(mut row: ArrayViewMut1<'_, f32>) {
    let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    row.mapv_inplace(|number| (number - most).exp());
    let sum = row.sum();
    row /= sum;
}

/// The number times the share of a normal distribution below it.
fn gelu(number: f32) -> f32 {
    number * 0.5 * (1.0 + erf(number * std::f32::consts::FRAC_1_SQRT_2))
}

/// The error function, after Abramowitz and Stegun 7.1.26: off by less than 2e-7.
fn erf(number: f32) -> f32 {
    let x = number.abs();
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let series = 1.061_405_4 * t - 1.453_152;
    let series = (series * t + 1.421_413_7) * t - 0.284_496_74;
    let series = (series * t + 0.254_829_6) * t;
    (1.0 - series * (-x * x).exp()).copysign(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_squeezed_as_they_should_be() {
        for (number, expected) in
            [(0.0, 0.0), (0.5, 0.520_499_9), (1.0, 0.842_700_8), (-2.0, -0.995_322_3), (9.0, 1.0)]
        {
            assert!((erf(number) - expected).abs() < 1e-6, "{number}: {}", erf(number));
        }
        let mut row = Array1::from_vec(vec![1.0, 1.0, 1_000.0]);
        share(row.view_mut());
        assert_eq!(row.to_vec(), [0.0, 0.0, 1.0]);
    }
}
