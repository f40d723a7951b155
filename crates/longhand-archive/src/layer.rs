//! Storage on top of another.

use std::ops::Range;

use longhand_core::session::{Node, Version};
use longhand_core::{Handle, Link};

use crate::storage::{
    Answer, BatchRecord, BestEntries, BestQuery, Candidates, EntryRecord, FoldStates, Key,
    NoteFilter, Opened, Referenced, RequestFilter, SearchQuery, SessionFilter, Storage, Upkeep,
    Vocabulary, VocabularyQuery, Write,
};
use crate::{
    ArchiveError, Damage, KnownPath, Listing, Note, Owner, Page, RequestRecord, SessionId,
    SessionInfo, UsageLine,
};

/// Declares the trait and makes every layer a storage, from one list of methods.
macro_rules! layer {
    ($(fn $name:ident(&self $(, $argument:ident: $kind:ty)*) -> $output:ty;)*) => {
        /// Storage that does some things its own way and leaves the rest to the one beneath it: a copy to
        /// another place, a count, a check of who may read.
        ///
        /// Only [`Layer::beneath`] must be written. Whatever is a layer is a [`Storage`], and so an
        /// [`crate::Archive`]. All that is written goes through [`Layer::write`] and [`Layer::put`].
        pub trait Layer: Send + Sync {
            /// The storage that does what this one does not do itself.
            fn beneath(&self) -> &dyn Storage;

            /// See [`Storage::is_shared`].
            fn is_shared(&self) -> bool {
                self.beneath().is_shared()
            }

            $(
                #[doc = concat!("See [`Storage::", stringify!($name), "`].")]
                fn $name(&self $(, $argument: $kind)*) -> Answer<'_, $output> {
                    self.beneath().$name($($argument),*)
                }
            )*
        }

        impl<L: Layer> Storage for L {
            fn is_shared(&self) -> bool {
                Layer::is_shared(self)
            }

            $(
                fn $name(&self $(, $argument: $kind)*) -> Answer<'_, $output> {
                    Layer::$name(self $(, $argument)*)
                }
            )*
        }
    };
}

layer! {
    fn write(&self, writes: Vec<Write>) -> Vec<Result<Version, ArchiveError>>;
    fn open(&self, id: SessionId, since: Version) -> Option<Opened>;
    fn nodes(&self, id: SessionId, seqs: Vec<Range<u64>>) -> Vec<Node>;
    fn bodies(&self, id: SessionId, seqs: Vec<Range<u64>>) -> Vec<EntryRecord>;
    fn read_batches(&self, id: SessionId, numbers: Vec<u64>, states: FoldStates) -> Vec<BatchRecord>;
    fn links(&self, owner: Owner, links: Vec<Link>) -> Vec<KnownPath>;
    fn references(&self, handle: Handle) -> Vec<Referenced>;
    fn candidates(&self, wanted: SearchQuery) -> Candidates;
    fn vocabulary(&self, wanted: VocabularyQuery) -> Vocabulary;
    fn best(&self, wanted: BestQuery) -> BestEntries;
    fn list_sessions(&self, of: SessionFilter, page: Page) -> Listing<SessionInfo>;
    fn owners(&self) -> Vec<Owner>;
    fn list_requests(&self, of: RequestFilter, page: Page) -> Listing<(SessionId, RequestRecord)>;
    fn usage(&self, since_ms: i64) -> Vec<UsageLine>;
    fn notes(&self, of: NoteFilter) -> Vec<(SessionId, Note)>;
    fn get(&self, keys: Vec<Key>) -> Vec<Option<String>>;
    fn keys(&self, id: SessionId, prefix: String) -> Vec<String>;
    fn put(&self, key: Key, expected: Option<String>, value: String) -> bool;
    fn erase(&self, id: SessionId) -> bool;
    fn check(&self, session: Option<SessionId>) -> Vec<Damage>;
    fn maintain(&self, upkeep: Upkeep) -> bool;
}
