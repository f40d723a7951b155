//! `longhand expand`.

use anyhow::Result;
use longhand_core::Handle;
use serde_json::json;

use crate::args::ExpandArgs;
use crate::{Outcome, hinted, originals, output};

pub(crate) fn run(args: &ExpandArgs) -> Result<Outcome> {
    let handle = Handle::parse(&args.handle).ok_or_else(|| {
        hinted(
            format!("{:?} is not a handle", args.handle),
            "a handle is `h:` and twelve letters and digits",
        )
    })?;
    let record = originals::find(&args.archive, handle)?;
    if args.json {
        let report =
            json!({"handle": handle.to_string(), "form": record.form, "content": record.content});
        output::print(&format!("{report:#}"))?;
    } else {
        output::print_exactly(&record.content)?;
    }
    Ok(Outcome::Done)
}
