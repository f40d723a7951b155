//! Licences and sources of the dependencies, as `deny.toml` wants them.

use crate::failure::Failure;
use crate::run::{cargo, has_cargo_command};

/// Checks what can be checked without a network.
pub(crate) fn deny() -> Result<(), Failure> {
    if !has_cargo_command("deny") {
        return Err(Failure::new("cargo-deny is not installed")
            .with_hint("`cargo install --locked cargo-deny` installs it"));
    }
    cargo(&["deny", "--all-features", "check", "bans", "licenses", "sources"])
}
