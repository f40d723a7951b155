//! The small model with its real weights.
//!
//! Without `LONGHAND_EMBEDDINGS`, the folder of the model, they say so and pass.
#![cfg(feature = "embeddings")]

use std::path::PathBuf;

use longhand_recall::embed::MiniLm;

fn model() -> Option<MiniLm> {
    let folder = std::env::var_os("LONGHAND_EMBEDDINGS").filter(|folder| !folder.is_empty());
    let Some(folder) = folder.map(PathBuf::from) else {
        println!("skipped: LONGHAND_EMBEDDINGS is not set; `cargo xtask test-embeddings` sets it");
        return None;
    };
    let weights = std::fs::read(folder.join("model.safetensors")).unwrap();
    let vocabulary = std::fs::read_to_string(folder.join("vocab.txt")).unwrap();
    let json = std::fs::read_to_string(folder.join("tokenizer.json")).unwrap();
    let model = MiniLm::read(&weights, &vocabulary).unwrap();
    let other = MiniLm::read(&weights, &json).unwrap();
    let text = "Both files list the same pieces, also for Café 東京.";
    assert_eq!(model.vectors(&[text]), other.vectors(&[text]));
    Some(model)
}

fn product(one: &[f32], other: &[f32]) -> f32 {
    one.iter().zip(other).map(|(one, other)| one * other).sum()
}

/// What another implementation of the model says, in double precision.
#[test]
fn vectors_are_those_of_the_model() {
    let Some(model) = model() else { return };
    let repeated = "word ".repeat(400);
    for (text, first, sum) in [
        (
            "The deploy waits for the canary to be healthy.",
            [0.08348, 0.00763, 0.02318, 0.04104, 0.08468, -0.05468],
            0.28067,
        ),
        (
            "Café «naïve» — 東京で会いましょう, x86_64!",
            [0.06299, 0.06044, 0.01912, -0.01949, -0.02293, -0.01881],
            -0.05323,
        ),
        (repeated.as_str(), [-0.00812, -0.09559, -0.03867, 0.04966, -0.04379, 0.02372], -0.78597),
    ] {
        let vector = model.vectors(&[text]).remove(0);
        assert_eq!(vector.len(), 384);
        for (number, expected) in vector.iter().zip(first) {
            assert!((number - expected).abs() < 1e-4, "{text}: {:?}", &vector[..6]);
        }
        assert!((vector.iter().sum::<f32>() - sum).abs() < 1e-3, "{text}");
    }
}

#[test]
fn what_means_the_same_is_alike() {
    let Some(model) = model() else { return };
    let texts = [
        "How long may a release take?",
        "A deployment must be done within ten minutes.",
        "The cat sleeps on the sofa.",
        "",
    ];
    let vectors = model.vectors(&texts);
    assert!((product(&vectors[0], &vectors[1]) - 0.49460).abs() < 1e-3);
    assert!((product(&vectors[0], &vectors[2]) + 0.04163).abs() < 1e-3);
    // Texts that go through the model together do not touch one another.
    for (text, vector) in texts.iter().zip(&vectors) {
        let alone = model.vectors(&[text]).remove(0);
        assert!((product(&alone, vector) - 1.0).abs() < 1e-4, "{text}");
    }
}
