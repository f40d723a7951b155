//! What every archive promises: directly, through a pooler, with everything in the index, and under a layer.

use longhand_archive::{Storage as _, Upkeep, wait};
use longhand_testkit::contract::Case;
use longhand_testkit::contract::layers::PassThrough;

use crate::server::server;

mod direct {
    longhand_testkit::contract_tests!(crate::contract::on_postgres);
}

mod pooled {
    longhand_testkit::contract_tests!(crate::contract::through_a_pooler);
}

mod layered {
    longhand_testkit::contract_tests!(crate::contract::under_a_layer);
}

fn on_postgres(case: &Case) {
    let Some(server) = server() else { return };
    case.check(&server.open(&server.database(), false));
}

fn through_a_pooler(case: &Case) {
    let Some(server) = server() else { return };
    let archive = server.open(&server.database(), true);
    case.check(&archive);
    // What is left of it is sound in the index, too.
    wait(archive.maintain(Upkeep::Index)).unwrap();
    assert_eq!(wait(archive.check(None)).unwrap(), []);
}

fn under_a_layer(case: &Case) {
    let Some(server) = server() else { return };
    case.check(&PassThrough(server.open(&server.database(), false)));
}
