//! Counts with a tokenizer.json, made here.
#![allow(clippy::unwrap_used)]

use std::collections::HashMap;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use longhand_core::{Meter, Scale, Tokens};
use longhand_meter::{ImageRule, MeterError, MeterSpec, Vocabulary};
use serde_json::json;

const CL100K: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

#[test]
fn a_small_tokenizer_counts() {
    let tokens = ["he", "ll", "hell", "hello", " w", "or", " wor", "ld", " world"];
    let meter = open(&write("small", &tokens.map(|token| token.as_bytes().to_vec())));
    for (text, expected) in [
        ("", 0),
        ("hello world", 2),
        ("hello", 1),
        ("hell", 1),
        ("held", 2),
        ("xyz", 3),
        ("字", 3),
        ("<|im_start|>", 12),
    ] {
        assert_eq!(Scale::new(&*meter).text(text), Tokens(expected), "{text}");
    }
}

#[test]
fn a_vocabulary_counts_the_same_from_its_file() {
    let encoding = tiktoken::get_encoding("cl100k_base").unwrap();
    let tokens: Vec<_> =
        (0..encoding.vocab_size() as u32).map(|id| encoding.decode(&[id])).collect();
    let ours = open(&write("cl100k", &tokens));
    let exact = Vocabulary::cl100k(ImageRule::OPENAI_TILES);
    for text in [
        include_str!("tokenizer_json.rs"),
        "I'm sure they'LL say it's theirs, don't you'd?  \r\n\r\n\tx   y",
        "東京特許許可局、今日は。「はい」！？ 한국어 문장입니다. 👨‍👩‍👧‍👦 é e\u{301}",
        "<|endoftext|> 12345678 https://example.com/a//b?c=%20",
    ] {
        for text in [text.to_owned(), text.repeat(40)] {
            assert_eq!(ours.weigh(&text, u64::MAX), exact.weigh(&text, u64::MAX), "{text:.80}");
        }
    }
}

#[test]
fn bad_files_are_named() {
    let folder = folder();
    let missing = folder.join("missing.json");
    let broken = folder.join("broken.json");
    let foreign = folder.join("foreign.json");
    fs::write(&broken, "{\"model\":").unwrap();
    fs::write(&foreign, "{\"model\":{\"type\":\"Abacus\",\"vocab\":{}}}").unwrap();
    for path in [missing, broken, foreign] {
        let error = MeterSpec::TokenizerJson(path.clone()).open(ImageRule::Flat(1)).err().unwrap();
        assert!(matches!(&error, MeterError::Tokenizer { .. }), "{error:?}");
        assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
        assert!(error.source().is_some());
    }
}

fn open(path: &Path) -> Box<dyn Meter> {
    let spec: MeterSpec = path.to_str().unwrap().parse().unwrap();
    assert_eq!(spec.to_string(), path.to_str().unwrap());
    spec.open(ImageRule::Flat(1)).unwrap()
}

fn folder() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

/// Writes a byte-level tokenizer whose tokens, by rank, are all bytes and then `tokens`.
fn write(name: &str, tokens: &[Vec<u8>]) -> PathBuf {
    let mut ranks: HashMap<Vec<u8>, usize> = HashMap::new();
    for token in (0..=255).map(|byte| vec![byte]).chain(tokens.iter().cloned()) {
        let rank = ranks.len();
        ranks.entry(token).or_insert(rank);
    }
    let merges: Vec<_> = tokens
        .iter()
        .filter_map(|token| halves(token, &ranks))
        .map(|(left, right)| json!([visible(left), visible(right)]))
        .collect();
    let vocab: HashMap<_, _> = ranks.iter().map(|(token, rank)| (visible(token), rank)).collect();
    let split = json!({"type": "Split", "pattern": {"Regex": CL100K}, "behavior": "Isolated", "invert": false});
    let bytes = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false});
    let special = json!({"id": ranks.len(), "content": "<|im_start|>", "special": true, "single_word": false,
                         "lstrip": false, "rstrip": false, "normalized": false});
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null, "normalizer": null,
        "added_tokens": [special],
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, bytes]},
        "post_processor": null,
        "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
                  "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
                  "ignore_merges": false, "vocab": vocab, "merges": merges},
    });
    let path = folder().join(format!("{name}.json"));
    fs::write(&path, tokenizer.to_string()).unwrap();
    path
}

/// The two tokens that merge into this one: what is left of it when its own merge is withheld.
fn halves<'t>(token: &'t [u8], ranks: &HashMap<Vec<u8>, usize>) -> Option<(&'t [u8], &'t [u8])> {
    let token_rank = ranks[token];
    let mut ends: Vec<usize> = (0..=token.len()).collect();
    while ends.len() > 3 {
        let rank = |at: &usize| ranks.get(&token[ends[at - 1]..ends[at + 1]]);
        let known =
            (1..ends.len() - 1).filter(|at| rank(at).is_some_and(|&rank| rank < token_rank));
        let first = known.min_by_key(|at| rank(at))?;
        ends.remove(first);
    }
    (ends.len() == 3).then(|| token.split_at(ends[1]))
}

/// Spells bytes in the letters that byte-level tokenizers use for them.
fn visible(bytes: &[u8]) -> String {
    let is_plain = |byte: u8| matches!(byte, 33..=126 | 161..=172 | 174..=255);
    let letter = |byte: u8| {
        let hidden_before = (0..byte).filter(|&other| !is_plain(other)).count() as u32;
        let code = if is_plain(byte) { u32::from(byte) } else { 256 + hidden_before };
        char::from_u32(code).unwrap()
    };
    bytes.iter().map(|&byte| letter(byte)).collect()
}
