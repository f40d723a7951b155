//! Lays out the vocabularies so that a program uses them where they lie, without unpacking them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use regex_syntax::hir::{Class, HirKind};

#[path = "src/vocabulary/layout.rs"]
mod layout;

use layout::{NO_RANK, TOKEN_BYTES_MAX, class, hash};

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/vocabulary/layout.rs");
    let folder = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    write_vocabulary(&folder, "o200k", 18)?;
    write_vocabulary(&folder, "cl100k", 17)?;
    write_classes(&folder)
}

fn write_vocabulary(folder: &Path, name: &str, bucket_bits: u32) -> io::Result<()> {
    let encoding = tiktoken::get_encoding(&format!("{name}_base")).expect("the manifest names it");
    let mut buckets = vec![Vec::new(); 1 << bucket_bits];
    let mut pairs = vec![NO_RANK; 1 << 16];
    // Special tokens come after the ordinary ones.
    for rank in 0..encoding.vocab_size() as u32 {
        let token = encoding.decode(&[rank]);
        assert!((1..=TOKEN_BYTES_MAX).contains(&token.len()), "{name} {rank}");
        if let [first, second] = token[..] {
            pairs[usize::from(first) << 8 | usize::from(second)] = rank;
        }
        let bucket: &mut Vec<u8> = &mut buckets[(hash(&token) >> (64 - bucket_bits)) as usize];
        bucket.push(token.len() as u8);
        bucket.extend(&rank.to_le_bytes()[..3]);
        bucket.extend(token);
    }
    let mut starts = Vec::new();
    let mut place = 0_u32;
    for bucket in &buckets {
        starts.extend(place.to_le_bytes());
        place += bucket.len() as u32;
    }
    starts.extend(place.to_le_bytes());
    let pairs: Vec<u8> = pairs.iter().flat_map(|rank| rank.to_le_bytes()).collect();
    fs::write(folder.join(format!("{name}.buckets")), starts)?;
    fs::write(folder.join(format!("{name}.tokens")), buckets.concat())?;
    fs::write(folder.join(format!("{name}.pairs")), pairs)
}

/// Writes the classes of all characters: blocks of 256, each kind of block once.
fn write_classes(folder: &Path) -> io::Result<()> {
    let mut classes = vec![class::OTHER; 0x11_0000];
    for (pattern, class) in [
        (r"[\p{Lu}\p{Lt}]", class::UPPER),
        (r"\p{Ll}", class::LOWER),
        (r"[\p{Lm}\p{Lo}]", class::UPPER | class::LOWER),
        (r"\p{M}", class::MARK),
        (r"\p{N}", class::NUMBER),
        (r"\s", class::SPACE),
    ] {
        let hir = regex_syntax::parse(pattern).expect("the pattern is legal");
        let HirKind::Class(Class::Unicode(set)) = hir.kind() else { panic!("{pattern}") };
        for range in set.ranges() {
            classes[range.start() as usize..=range.end() as usize].fill(class);
        }
    }
    let (mut blocks, mut known, mut index) = (Vec::new(), HashMap::new(), Vec::new());
    for block in classes.chunks(256) {
        let next = known.len();
        let number = *known.entry(block).or_insert_with(|| {
            blocks.extend(block);
            next
        });
        index.push(u8::try_from(number).expect("there are few kinds of blocks"));
    }
    fs::write(folder.join("classes.index"), index)?;
    fs::write(folder.join("classes.blocks"), blocks)
}
