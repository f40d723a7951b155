//! Counts agree with the oracle on every string of the recorded sessions.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::oracle::check;

#[test]
fn every_string_of_the_recorded_sessions_is_exact() {
    let data = shared().join("data");
    let mut files = Vec::new();
    files_below(&data.join("traces"), "json", &mut files);
    files_below(&data.join("formats"), "jsonl", &mut files);
    if files.is_empty() {
        println!("skipped: no recorded sessions below {}", data.display());
        return;
    }
    let (mut texts, mut bytes) = (0, 0);
    for file in &files {
        let contents = fs::read_to_string(file).unwrap();
        for value in serde_json::Deserializer::from_str(&contents).into_iter::<Value>() {
            each_string(&value.unwrap(), &mut |text| {
                check(text);
                texts += 1;
                bytes += text.len();
            });
        }
    }
    println!("{texts} strings, {bytes} bytes in {} files are exact", files.len());
}

fn shared() -> PathBuf {
    std::env::var_os("LONGHAND_SHARED").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
        PathBuf::from,
    )
}

fn files_below(folder: &Path, extension: &str, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            files_below(&path, extension, files);
        } else if path.extension().is_some_and(|found| found == extension) {
            files.push(path);
        }
    }
}

fn each_string(value: &Value, visit: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => visit(text),
        Value::Array(items) => items.iter().for_each(|item| each_string(item, visit)),
        Value::Object(fields) => fields.values().for_each(|field| each_string(field, visit)),
        _ => {}
    }
}
