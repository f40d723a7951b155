//! The Python wheel, for `pipx install` and `uvx`.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Staged, VERSION, printed};
use crate::failure::Failure;
use crate::run::root;

pub(super) fn pack(staged: &Staged) -> Result<PathBuf, Failure> {
    let binary = staged.folder.join("bin/longhand");
    let platform = platform(staged.target.as_deref(), &binary)?;
    let path = printed(
        Command::new("python3")
            .arg(root().join("packaging/wheel.py"))
            .arg(&binary)
            .arg(root().join("README.md"))
            .args([VERSION, &platform])
            .arg(&staged.output),
    )?;
    Ok(PathBuf::from(path.trim()))
}

/// What pip calls the machines that a binary runs on.
fn platform(target: Option<&str>, binary: &Path) -> Result<String, Failure> {
    match target {
        Some("x86_64-apple-darwin") => Ok("macosx_10_12_x86_64".to_owned()),
        Some("aarch64-apple-darwin") => Ok("macosx_11_0_arm64".to_owned()),
        Some(other) if !other.contains("linux-gnu") => {
            Err(Failure::unavailable(format!("no wheel is known for {other}")))
        }
        target => {
            let machine = target.and_then(|target| target.split('-').next());
            let machine = machine.unwrap_or(std::env::consts::ARCH);
            Ok(format!("manylinux_2_{}_{machine}", glibc(binary)?))
        }
    }
}

/// The version of glibc that a binary needs, after `2.`: the highest that its symbols name.
pub(super) fn glibc(binary: &Path) -> Result<u32, Failure> {
    const MARK: &[u8] = b"GLIBC_2.";
    let bytes = std::fs::read(binary)
        .map_err(|error| Failure::new(format!("{}: {error}", binary.display())))?;
    let versions = bytes.windows(MARK.len() + 3).filter(|part| part.starts_with(MARK));
    let number = |part: &[u8]| {
        let digits = part[MARK.len()..].iter().take_while(|byte| byte.is_ascii_digit());
        digits.fold(0, |number, digit| number * 10 + u32::from(digit - b'0'))
    };
    Ok(versions.map(number).filter(|version| *version < 100).max().unwrap_or(17))
}
