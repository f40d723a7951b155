//! What every archive promises, on each that there is: alone, under a layer, and under one that could fail.

use std::sync::Arc;

use longhand_archive::{MemoryArchive, SqliteArchive};
use longhand_testkit::contract::Case;
use longhand_testkit::contract::layers::PassThrough;
use longhand_testkit::faulty::{Fault, Faulty};
use tempfile::TempDir;

use crate::common::quick_folder;

mod memory {
    longhand_testkit::contract_tests!(crate::contract::on_memory);
}

mod sqlite {
    longhand_testkit::contract_tests!(crate::contract::on_sqlite);
}

mod layer_on_memory {
    longhand_testkit::contract_tests!(crate::contract::on_layered_memory);
}

mod layer_on_sqlite {
    longhand_testkit::contract_tests!(crate::contract::on_layered_sqlite);
}

mod faulty_on_memory {
    longhand_testkit::contract_tests!(crate::contract::on_faulty_memory);
}

mod faulty_on_sqlite {
    longhand_testkit::contract_tests!(crate::contract::on_faulty_sqlite);
}

fn on_memory(case: &Case) {
    case.check(&MemoryArchive::new());
}

fn on_sqlite(case: &Case) {
    let (_folder, archive) = sqlite();
    case.check(&archive);
}

fn on_layered_memory(case: &Case) {
    case.check(&PassThrough(MemoryArchive::new()));
}

fn on_layered_sqlite(case: &Case) {
    let (_folder, archive) = sqlite();
    case.check(&PassThrough(archive));
}

fn on_faulty_memory(case: &Case) {
    case.check(&Faulty::new(Arc::new(MemoryArchive::new()), Fault::None));
}

fn on_faulty_sqlite(case: &Case) {
    let (_folder, archive) = sqlite();
    case.check(&Faulty::new(Arc::new(archive), Fault::None));
}

fn sqlite() -> (TempDir, SqliteArchive) {
    let folder = quick_folder();
    let archive = SqliteArchive::open(folder.path().join("archive.db")).unwrap();
    (folder, archive)
}
