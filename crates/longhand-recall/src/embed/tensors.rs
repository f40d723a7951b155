//! Tensors in a file of the safetensors format: the length of a header, a header in JSON, then the numbers.

use ndarray::{Array1, Array2};
use serde_json::{Map, Value};

use super::ModelFileError;

/// A longer header is none.
const HEADER_BYTES_MAX: u64 = 16 << 20;

/// The tensors of a file by their names.
pub(super) struct Tensors<'f> {
    header: Map<String, Value>,
    numbers: &'f [u8],
}

impl<'f> Tensors<'f> {
    pub(super) fn read(file: &'f [u8]) -> Result<Self, ModelFileError> {
        let broken = |why: &str| ModelFileError::Tensors(why.to_owned());
        let (length, rest) = file.split_first_chunk().ok_or_else(|| broken("it is too short"))?;
        let length = u64::from_le_bytes(*length);
        let length = usize::try_from(length.min(HEADER_BYTES_MAX + 1)).unwrap_or(usize::MAX);
        let header = rest.get(..length).ok_or_else(|| broken("its header is cut off"))?;
        let header = serde_json::from_slice(header)
            .map_err(|error| ModelFileError::Tensors(format!("its header: {error}")))?;
        Ok(Self { header, numbers: &rest[length..] })
    }

    /// A list of numbers.
    pub(super) fn list(&self, name: &str) -> Result<Array1<f32>, ModelFileError> {
        match self.tensor(name)? {
            (shape, numbers) if shape.len() == 1 => Ok(Array1::from_vec(numbers)),
            (shape, _) => Err(ModelFileError::Shape(format!("{name} has the shape {shape:?}"))),
        }
    }

    /// A table of numbers, row by row.
    pub(super) fn table(&self, name: &str) -> Result<Array2<f32>, ModelFileError> {
        let (shape, numbers) = self.tensor(name)?;
        let wrong = || ModelFileError::Shape(format!("{name} has the shape {shape:?}"));
        let [rows, columns] = shape[..] else { return Err(wrong()) };
        Array2::from_shape_vec((rows, columns), numbers).map_err(|_| wrong())
    }

    fn tensor(&self, name: &str) -> Result<(Vec<usize>, Vec<f32>), ModelFileError> {
        // Some files name all tensors after the model.
        let tensor = self.header.get(name).or_else(|| self.header.get(&format!("bert.{name}")));
        let tensor = tensor.ok_or_else(|| ModelFileError::Shape(format!("{name} is missing")))?;
        let numbers = |key: &str| -> Option<Vec<usize>> {
            let list = tensor[key].as_array()?.iter();
            list.map(|number| usize::try_from(number.as_u64()?).ok()).collect()
        };
        let broken = |why: &str| ModelFileError::Tensors(format!("{name} {why}"));
        let shape = numbers("shape").ok_or_else(|| broken("has no shape"))?;
        let place = numbers("data_offsets").unwrap_or_default();
        let [start, end] = place[..] else { return Err(broken("has no place")) };
        let bytes = self.numbers.get(start..end).ok_or_else(|| broken("is cut off"))?;
        let read: Vec<f32> = match tensor["dtype"].as_str() {
            Some("F32") => {
                bytes.as_chunks().0.iter().map(|four| f32::from_le_bytes(*four)).collect()
            }
            Some("F16") => bytes.as_chunks().0.iter().map(|two| of_half(*two)).collect(),
            Some("BF16") => bytes
                .as_chunks()
                .0
                .iter()
                .map(|[low, high]| f32::from_le_bytes([0, 0, *low, *high]))
                .collect(),
            _ => return Err(broken("has numbers of another kind than F32, F16 or BF16")),
        };
        let count = shape.iter().try_fold(1_usize, |product, side| product.checked_mul(*side));
        if count != Some(read.len()) {
            return Err(broken("has another size than its shape"));
        }
        Ok((shape, read))
    }
}

/// A number of half precision: a sign, five bits of exponent, ten of fraction.
fn of_half(bytes: [u8; 2]) -> f32 {
    let bits = u16::from_le_bytes(bytes);
    let sign = if bits >> 15 == 0 { 1.0 } else { -1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 0x1f), f32::from(bits & 0x3ff));
    sign * match exponent {
        0 => fraction * 2.0_f32.powi(-24),
        0x1f if fraction == 0.0 => f32::INFINITY,
        0x1f => f32::NAN,
        _ => (fraction / 1024.0 + 1.0) * 2.0_f32.powi(exponent - 15),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(header: &str, numbers: &[u8]) -> Vec<u8> {
        let length = (header.len() as u64).to_le_bytes();
        [&length[..], header.as_bytes(), numbers].concat()
    }

    #[test]
    fn numbers_of_three_kinds_are_read() {
        for (kind, numbers) in [
            ("F32", [1.5_f32.to_le_bytes(), (-2.0_f32).to_le_bytes()].concat()),
            ("F16", vec![0x00, 0x3e, 0x00, 0xc0]),
            ("BF16", vec![0xc0, 0x3f, 0x00, 0xc0]),
        ] {
            let size = numbers.len();
            let header =
                format!(r#"{{"a":{{"dtype":"{kind}","shape":[2],"data_offsets":[0,{size}]}}}}"#);
            let file = file(&header, &numbers);
            let tensors = Tensors::read(&file).unwrap();
            assert_eq!(tensors.list("a").unwrap().to_vec(), [1.5, -2.0], "{kind}");
            assert!(tensors.table("a").is_err() && tensors.list("b").is_err());
        }
        assert_eq!(of_half([0x01, 0x00]), 2.0_f32.powi(-24));
        assert!(of_half([0x00, 0x7c]).is_infinite() && of_half([0x01, 0x7c]).is_nan());
    }

    #[test]
    fn broken_files_are_refused() {
        let whole = r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#;
        for (header, numbers) in [
            (whole, &[0; 7][..]),
            (r#"{"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}}"#, &[0; 8]),
            (r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}}"#, &[0; 8]),
            (r#"{"a":{"dtype":"I64","shape":[1],"data_offsets":[0,8]}}"#, &[0; 8]),
            (r#"{"a":{"dtype":"F32","data_offsets":[0,8]}}"#, &[0; 8]),
            (r#"{"a":7}"#, &[]),
        ] {
            let file = file(header, numbers);
            assert!(Tensors::read(&file).unwrap().list("a").is_err(), "{header}");
        }
        for file in [&b""[..], b"1234567", &[255; 40], &file("[]", &[]), &file("{", &[])] {
            assert!(Tensors::read(file).is_err(), "{file:?}");
        }
    }
}
