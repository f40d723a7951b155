//! Money that calls of models cost, shared by all that use an archive.

use crate::ledger::{attempts, outrun};
use crate::storage::{Key, Storage};
use crate::{ArchiveError, Reserved, SessionId, Wish};

/// Where it is noted: a line for each call, with its number, time and millionths of a dollar.
const NAME: &str = "spending";

/// What calls have reserved or spent.
#[derive(Default)]
struct Spending {
    /// How many reservations there have been.
    numbers: u64,
    calls: Vec<Call>,
}

struct Call {
    number: u64,
    at_ms: i64,
    micros: u64,
}

impl Spending {
    fn read(text: &str) -> Self {
        let mut lines = text.lines();
        let numbers = lines.next().and_then(|line| line.parse().ok()).unwrap_or(0);
        let call = |line: &str| {
            let mut fields = line.split(' ');
            let number = fields.next()?.parse().ok()?;
            let at_ms = fields.next()?.parse().ok()?;
            Some(Call { number, at_ms, micros: fields.next()?.parse().ok()? })
        };
        Self { numbers, calls: lines.filter_map(call).collect() }
    }

    fn write(&self) -> String {
        let line = |call: &Call| format!("\n{} {} {}", call.number, call.at_ms, call.micros);
        self.numbers.to_string() + &self.calls.iter().map(line).collect::<String>()
    }

    fn reserve(&mut self, wish: &Wish) -> Reserved {
        for call in &mut self.calls {
            call.at_ms = call.at_ms.min(wish.at_ms);
        }
        self.calls.retain(|call| call.at_ms > wish.since_ms());
        let mut spent: Vec<(i64, u64)> =
            self.calls.iter().map(|call| (call.at_ms, call.micros)).collect();
        spent.sort_unstable();
        if let Err(until_ms) = wish.fits(&spent) {
            return Reserved::Full { until_ms };
        }
        self.numbers += 1;
        let number = self.numbers;
        self.calls.push(Call { number, at_ms: wish.at_ms, micros: wish.micros });
        Reserved::Granted(number)
    }

    fn settle(&mut self, number: u64, micros: u64) {
        if let Some(call) = self.calls.iter_mut().find(|call| call.number == number) {
            call.micros = micros;
        }
    }
}

/// See [`crate::Archive::reserve`].
pub(super) async fn reserve<S: Storage + ?Sized>(
    storage: &S,
    wish: &Wish,
) -> Result<Reserved, ArchiveError> {
    change(storage, |spending| spending.reserve(wish)).await
}

/// See [`crate::Archive::settle`].
pub(super) async fn settle<S: Storage + ?Sized>(
    storage: &S,
    number: u64,
    micros: u64,
) -> Result<(), ArchiveError> {
    change(storage, |spending| spending.settle(number, micros)).await
}

/// Changes what is noted; decides anew whenever others were first.
async fn change<S: Storage + ?Sized, T>(
    storage: &S,
    decide: impl Fn(&mut Spending) -> T,
) -> Result<T, ArchiveError> {
    let key = Key::Shared(NAME.to_owned());
    for () in attempts() {
        let before = super::one(storage, key.clone()).await?;
        let mut spending = before.as_deref().map(Spending::read).unwrap_or_default();
        let answer = decide(&mut spending);
        let now = spending.write();
        if before.as_ref() == Some(&now) || storage.put(key.clone(), before, now).await? {
            return Ok(answer);
        }
    }
    Err(outrun(SessionId::default()))
}
