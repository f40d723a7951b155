//! An archive on top of another.

use std::ops::{ControlFlow, Range};

use longhand_core::{Handle, Link, Seq};

use crate::{
    Addition, After, Appended, Archive, ArchiveError, Damage, Entry, Found, Head, Hit, Listing,
    LoggedBatch, NewBatch, NewEntry, NewSession, Node, Owner, Page, PreambleId, Record, Reference,
    Request, Reserved, Scope, SessionId, SessionInfo, Wish,
};

/// Declares the trait and makes every layer an archive, from one list of methods.
macro_rules! layer {
    ($(fn $name:ident(&self $(, $argument:ident: $kind:ty)*) -> $output:ty;)*) => {
        /// An archive that does some things its own way and leaves the rest to the one beneath it: a copy to
        /// another place, a count, a check of who may read.
        ///
        /// Only [`Layer::beneath`] must be written. Whatever is a layer is an [`Archive`].
        pub trait Layer: Send + Sync {
            /// The archive that does what this one does not do itself.
            fn beneath(&self) -> &dyn Archive;

            $(
                #[doc = concat!("See [`Archive::", stringify!($name), "`].")]
                fn $name(&self $(, $argument: $kind)*) -> Result<$output, ArchiveError> {
                    self.beneath().$name($($argument),*)
                }
            )*
        }

        impl<L: Layer> Archive for L {
            $(
                fn $name(&self $(, $argument: $kind)*) -> Result<$output, ArchiveError> {
                    Layer::$name(self $(, $argument)*)
                }
            )*
        }
    };
}

layer! {
    fn begin(&self, id: SessionId, session: &NewSession) -> ();
    fn append(&self, id: SessionId, after: After, entries: &[NewEntry]) -> Appended;
    fn append_all(&self, additions: &[Addition]) -> Vec<Result<Appended, ArchiveError>>;
    fn commit(&self, id: SessionId, batch: &NewBatch) -> u64;
    fn undo(&self, id: SessionId, head: Option<Seq>) -> Option<LoggedBatch>;
    fn live(&self, id: SessionId, head: Option<Seq>) -> Vec<LoggedBatch>;
    fn head(&self, id: SessionId) -> Option<Head>;
    fn session(&self, id: SessionId) -> Option<SessionInfo>;
    fn find_path(&self, owner: Owner, links: &[Link]) -> Option<Found>;
    fn path(&self, id: SessionId, head: Option<Seq>, seqs: Range<u64>) -> Vec<Entry>;
    fn entries(&self, id: SessionId, seqs: Range<u64>) -> Vec<Entry>;
    fn tree(&self, id: SessionId) -> Vec<Node>;
    fn batches(&self, id: SessionId, page: Page) -> Listing<LoggedBatch>;
    fn sessions(&self, owner: Option<Owner>, page: Page) -> Listing<SessionInfo>;
    fn search(&self, scope: &Scope, query: &str, limit: usize) -> Vec<Hit>;
    fn pin(&self, id: SessionId, entry: Seq, pinned: bool) -> ();
    fn reference(&self, scope: &Scope, handle: Handle) -> Option<Reference>;
    fn keep_preamble(&self, owner: Owner, content: &str) -> PreambleId;
    fn preamble(&self, owner: Owner, id: PreambleId) -> Option<String>;
    fn log_request(&self, id: SessionId, request: &Request) -> ();
    fn requests(&self, id: SessionId, page: Page) -> Listing<Request>;
    fn answer(&self, owner: Owner, answer: &str) -> Option<(SessionId, Request)>;
    fn put_derived(&self, id: SessionId, key: &str, value: &str) -> ();
    fn derived(&self, id: SessionId, key: &str) -> Option<String>;
    fn derived_keys(&self, id: SessionId, prefix: &str) -> Vec<String>;
    fn export(&self, id: SessionId, take: &mut dyn FnMut(Record) -> ControlFlow<()>) -> bool;
    fn restore(&self, id: SessionId, records: &[Record]) -> ();
    fn reserve(&self, wish: &Wish) -> Reserved;
    fn settle(&self, reservation: u64, micros: u64) -> ();
    fn verify(&self, session: Option<SessionId>) -> Vec<Damage>;
    fn remove(&self, id: SessionId) -> bool;
}
