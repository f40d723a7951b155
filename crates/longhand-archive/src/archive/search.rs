//! Finding entries by their text, and what handles stand for.

use longhand_core::{Handle, Seq};
use longhand_recall::Strictness;

use crate::codec::{self, Target};
use crate::ledger::Ledger;
use crate::storage::{
    FoldStates, Referenced, SearchFilter, SearchQuery, SearchScope, SessionFilter, Storage,
};
use crate::{
    ArchiveError, Damage, DamagedPart, Found, Hit, Owner, Page, Reference, Scope, SessionId,
};

/// See [`crate::Archive::search`].
///
/// Of one session, nothing is only the answer if everything could be read; among many, one that is damaged
/// is of no concern to the others.
pub async fn search<S: Storage + ?Sized>(
    storage: &S,
    scope: &Scope,
    query: &str,
    filter: SearchFilter,
    limit: usize,
) -> Result<Found, ArchiveError> {
    let Some((within, path)) = reach(storage, scope).await? else { return Ok(Found::default()) };
    let mut first_damage = None;
    let mut is_partial = false;
    for strictness in [Strictness::Words, Strictness::Substrings] {
        let mut hits: Vec<Hit> = Vec::new();
        let mut after = None;
        loop {
            let wanted = SearchQuery {
                query: query.to_owned(),
                strictness,
                within: within.clone(),
                filter,
                after,
                limit: limit - hits.len(),
            };
            let found = storage.candidates(wanted).await?;
            let is_on_path = |hit: &Hit| match &path {
                Some((ledger, head)) => ledger.state.tree().is_on_path(hit.seq, *head),
                None => true,
            };
            hits.extend(found.hits.into_iter().map(|found| found.hit).filter(is_on_path));
            first_damage = first_damage.or(found.damage);
            is_partial |= found.is_partial;
            after = found.next;
            if after.is_none() || hits.len() >= limit {
                break;
            }
        }
        let is_over = matches!(within, SearchScope::Sessions(_)) && first_damage.is_some();
        if !hits.is_empty() || is_over {
            return match first_damage {
                Some(damage) if hits.is_empty() => Err(ledger_damage(damage)),
                _ => Ok(Found { hits, is_partial }),
            };
        }
    }
    Ok(Found { hits: Vec::new(), is_partial })
}

pub(super) fn ledger_damage(damage: Damage) -> ArchiveError {
    ArchiveError::Damaged { archive: "the archive".to_owned(), damage: Box::new(damage) }
}

/// Looks a scope up; `None` if it holds nothing.
pub(super) async fn reach<S: Storage + ?Sized>(
    storage: &S,
    scope: &Scope,
) -> Result<Option<(SearchScope, Option<(Ledger, Seq)>)>, ArchiveError> {
    let (session, path) = match scope {
        Scope::All => return Ok(Some((SearchScope::All, None))),
        Scope::Owner(owner) => return Ok(Some((SearchScope::Owner(*owner), None))),
        Scope::Session(session) => (*session, None),
        Scope::Path { session, head } => (*session, Some(*head)),
    };
    let Some(ledger) = Ledger::open(storage, session).await? else { return Ok(None) };
    let within = SearchScope::Sessions(vec![session]);
    match path {
        None => Ok(Some((within, None))),
        Some(head) => Ok(ledger.head(head)?.map(|head| (within, Some((ledger, head))))),
    }
}

/// See [`crate::Archive::reference`].
pub async fn reference<S: Storage + ?Sized>(
    storage: &S,
    scope: &Scope,
    handle: Handle,
) -> Result<Option<Reference>, ArchiveError> {
    let (first, owner) = match scope {
        Scope::All => (None, None),
        Scope::Owner(owner) => (None, Some(*owner)),
        Scope::Session(id) | Scope::Path { session: id, .. } => {
            let Some(owner) = owner_of(storage, *id).await? else { return Ok(None) };
            (Some(*id), Some(owner))
        }
    };
    let found = storage.references(handle).await?;
    let found = found.into_iter().filter(|found| owner.is_none_or(|owner| found.owner == owner));
    let (of_first, of_others): (Vec<Referenced>, Vec<Referenced>) =
        found.partition(|found| Some(found.session) == first);
    if let Some(found) = of_first.first() {
        return target(storage, found, handle).await.map(Some);
    }
    let mut fault = None;
    for found in of_others {
        match target(storage, &found, handle).await {
            Ok(reference) => return Ok(Some(reference)),
            Err(error) => fault = Some(error),
        }
    }
    // Damage in one session is of no concern to another.
    match fault {
        Some(fault) if first.is_none() => Err(fault),
        _ => Ok(None),
    }
}

async fn owner_of<S: Storage + ?Sized>(
    storage: &S,
    id: SessionId,
) -> Result<Option<Owner>, ArchiveError> {
    let found = storage.list_sessions(SessionFilter::Session(id), Page::first(1)).await?;
    Ok(found.items.first().map(|session| session.owner))
}

/// What a handle stands for in a batch that has it.
async fn target<S: Storage + ?Sized>(
    storage: &S,
    found: &Referenced,
    handle: Handle,
) -> Result<Reference, ArchiveError> {
    let (session, number) = (found.session, found.batch);
    let batch = storage.read_batches(session, vec![number], FoldStates::None).await?.pop();
    let target = batch.and_then(|record| codec::target(&record.batch, handle));
    let damaged = || {
        let part = DamagedPart::Reference(handle.to_string());
        ledger_damage(Damage {
            session: Some(session),
            part,
            detail: "failed its checksum".to_owned(),
        })
    };
    Ok(match target.ok_or_else(damaged)? {
        Target::Part(place) => Reference::Part { session, place },
        Target::Fold(fold) => Reference::Fold { session, batch: number, fold },
        Target::Variant(original) => Reference::Variant { session, original },
    })
}
