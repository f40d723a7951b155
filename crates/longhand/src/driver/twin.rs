//! A request with secrets, in its two forms.

/// What goes to the provider, and what is archived.
///
/// The two differ only where secrets were found: the archive gets marks in their place. Links, entries, handles
/// and folds are made from the stored form, windows from the bytes of the sent one.
#[derive(Clone, Debug)]
pub struct Twin<T> {
    stored: T,
    /// `None` if both forms are the same.
    sent: Option<T>,
}

impl<T> Twin<T> {
    /// A request without secrets: both forms are the same.
    pub fn same(form: T) -> Self {
        Self { stored: form, sent: None }
    }

    /// A request with secrets: the form that has them, and the one with marks in their place.
    pub fn redacted(sent: T, stored: T) -> Self {
        Self { stored, sent: Some(sent) }
    }

    /// The form that goes to the provider.
    pub fn sent(&self) -> &T {
        self.sent.as_ref().unwrap_or(&self.stored)
    }

    /// The form that is archived.
    pub fn stored(&self) -> &T {
        &self.stored
    }

    /// The form that is archived, and nothing else.
    pub fn into_stored(self) -> T {
        self.stored
    }

    /// Both forms, borrowed.
    pub fn as_ref(&self) -> Twin<&T> {
        Twin { stored: &self.stored, sent: self.sent.as_ref() }
    }

    /// Whether the two forms differ.
    pub fn is_redacted(&self) -> bool {
        self.sent.is_some()
    }

    /// Changes both forms in the same way.
    pub fn change(&mut self, mut change: impl FnMut(&mut T)) {
        change(&mut self.stored);
        if let Some(sent) = &mut self.sent {
            change(sent);
        }
    }

    /// Makes another twin from both forms.
    pub fn map<U>(self, mut make: impl FnMut(T) -> U) -> Twin<U> {
        Twin { stored: make(self.stored), sent: self.sent.map(make) }
    }

    /// Makes another twin from both forms, if that is possible for each.
    pub fn try_map<U, E>(self, mut make: impl FnMut(T) -> Result<U, E>) -> Result<Twin<U>, E> {
        Ok(Twin { stored: make(self.stored)?, sent: self.sent.map(make).transpose()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_made_and_one_form_is_made_once() {
        let twin = Twin::redacted("key", "mark").map(str::len);
        assert_eq!((*twin.sent(), *twin.stored(), twin.is_redacted()), (3, 4, true));
        let mut made = 0;
        let same = Twin::same("text").map(|text| {
            made += 1;
            text.len()
        });
        assert_eq!((*same.sent(), *same.stored(), same.is_redacted(), made), (4, 4, false, 1));
        assert!(
            Twin::redacted(1, 2).try_map(|form| if form == 1 { Err(()) } else { Ok(()) }).is_err()
        );
    }
}
