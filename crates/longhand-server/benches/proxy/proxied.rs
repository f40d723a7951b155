//! The proxy itself, with an archive on the disk.

use std::sync::Arc;

use longhand::Tokens;
use longhand_archive::SqliteArchive;
use longhand_server::{Settings, serve};

use crate::process::{BUDGET, TARGET, runtime, stay};

pub(crate) fn run() {
    let folder = tempfile::tempdir().unwrap();
    let archive = SqliteArchive::open(folder.path().join("a.db")).unwrap();
    let mut settings = Settings::new(Arc::new(archive));
    settings.listen.set_port(0);
    settings.upstream_openai = Some(format!("http://{}", std::env::var(TARGET).unwrap()));
    settings.budget = std::env::var(BUDGET).unwrap().parse().ok().map(Tokens);
    let runtime = runtime();
    let proxy = runtime.block_on(serve(settings)).unwrap();
    stay(proxy.address());
    let counts = proxy.counts();
    if counts.bypassed + counts.unarchived > 0 {
        eprintln!("the proxy was not itself: {counts:?}");
    }
    runtime.block_on(proxy.stop());
}
