//! The npm package, for `npx`.

use std::path::PathBuf;
use std::process::Command;

use super::{Staged, VERSION, copy, printed, write};
use crate::failure::Failure;
use crate::run::root;

pub(super) fn pack(staged: &Staged) -> Result<PathBuf, Failure> {
    let folder = staged.output.join("npm");
    copy(&staged.folder.join("bin/longhand"), &folder.join("bin/longhand"))?;
    for name in ["README.md", "LICENSE-MIT", "LICENSE-APACHE"] {
        copy(&root().join(name), &folder.join(name))?;
    }
    let target = staged.build.target.as_deref().unwrap_or(std::env::consts::ARCH);
    let cpu = if target.starts_with("aarch64") { "arm64" } else { "x64" };
    let os = if target.contains("darwin") { "darwin" } else { "linux" };
    let package = format!(
        "{{\n  \"name\": \"longhand\",\n  \"version\": \"{VERSION}\",\n  \
         \"description\": \"An endless conversation for any LLM agent\",\n  \
         \"license\": \"(MIT OR Apache-2.0)\",\n  \"bin\": {{ \"longhand\": \"bin/longhand\" }},\n  \
         \"files\": [\"bin\"],\n  \"os\": [\"{os}\"],\n  \"cpu\": [\"{cpu}\"]\n}}\n"
    );
    write(&folder.join("package.json"), &package)?;
    let name = printed(
        Command::new("npm")
            .args(["pack", "--silent", "--pack-destination"])
            .arg(&staged.output)
            .current_dir(&folder),
    )?;
    Ok(staged.output.join(name.trim()))
}
