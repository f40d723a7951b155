//! The programs in `examples/`: each has a test that runs it.

#[path = "../../examples/fit_request.rs"]
mod fit_request;
#[path = "../../examples/own_archive.rs"]
mod own_archive;
#[path = "../../examples/own_summariser.rs"]
mod own_summariser;
#[path = "../../examples/session.rs"]
mod session;
