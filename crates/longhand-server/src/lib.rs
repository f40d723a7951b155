//! A proxy that gives any LLM agent an endless conversation.
//!
//! A request that fits goes upstream byte for byte, and so does its answer on the way back. One that
//! does not fit is made to. Every message is archived, off the request's path.
//!
//! ```no_run
//! use std::sync::Arc;
//! use longhand::{MemoryArchive, Tokens};
//! use longhand_server::{Settings, serve};
//!
//! # async fn demo() -> Result<(), longhand_server::ServerError> {
//! let mut settings = Settings::new(Arc::new(MemoryArchive::default()));
//! settings.upstream_openai = Some("http://127.0.0.1:8080/v1".to_owned());
//! settings.budget = Some(Tokens(32_000));
//! let proxy = serve(settings).await?;
//! println!("listening http://{}", proxy.address());
//! proxy.stop().await;
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod answer;
mod archivist;
mod buffers;
mod cache_reach;
mod calibration;
mod client;
mod console;
mod credentials;
mod envelope;
mod error;
mod guard;
mod headers;
mod in_place;
mod knowledge;
mod limited;
mod limited_summariser;
mod listener;
mod load;
mod lock;
mod log_line;
mod mcp;
mod memo;
mod metrics;
mod missing;
mod models;
mod notices;
mod passage;
mod proxy;
mod recall;
mod record;
mod recovery;
mod redaction;
mod request;
mod route;
mod secret;
mod settings;
mod status;
mod store;
mod timely;
mod turns;
mod upstream;
mod warnings;

pub use console::{ConsoleServer, ConsoleSettings, serve_console};
pub use error::ServerError;
pub use hyper::header::HeaderName;
pub use metrics::Counts;
pub use missing::Missing;
pub use proxy::{Proxy, serve};
pub use settings::{LogSink, RecallTool, Settings};
