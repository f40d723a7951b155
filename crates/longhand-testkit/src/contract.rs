//! What every storage must do, and the archive over it.
//!
//! Whoever writes a storage runs all cases on it in one line, or each as a test of its own:
//!
//! ```
//! # #[cfg(feature = "storage")]
//! longhand_testkit::contract::archive_contract(&|| Box::new(longhand_archive::MemoryArchive::new()));
//! ```
//!
//! ```ignore
//! fn check(case: &longhand_testkit::contract::Case) {
//!     case.check(&MyArchive::new());
//! }
//!
//! longhand_testkit::contract_tests!(crate::check);
//! ```
#![allow(clippy::unwrap_used)]

mod batches;
pub mod layers;
mod paths;
pub mod samples;
mod seam;
mod search;
mod sessions;
mod silence;
mod values;
mod writes;

use longhand_archive::Archive;

/// One thing that every archive must do.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// What it must do.
    pub name: &'static str,
    check: fn(&dyn Archive),
}

impl Case {
    /// Checks it on an archive that is empty.
    ///
    /// # Panics
    ///
    /// If the archive does not do it, or is damaged after it.
    pub fn check(&self, archive: &dyn Archive) {
        (self.check)(archive);
        assert_eq!(archive.verify(None).unwrap(), [], "{} leaves damage", self.name);
    }
}

/// Checks all that every archive must do, each on an empty archive that `make` returns.
///
/// # Panics
///
/// If the archive fails a case, whose name is printed.
pub fn archive_contract(make: &dyn Fn() -> Box<dyn Archive>) {
    for case in CASES {
        println!("{}", case.name);
        case.check(&*make());
    }
}

/// Lists the cases once: in the table, and for tests of their own.
macro_rules! cases {
    ($d:tt $($module:ident { $($case:ident)* })*) => {
        /// All that every archive must do.
        pub const CASES: &[Case] = &[$($(
            Case { name: concat!(stringify!($module), "::", stringify!($case)), check: $module::$case },
        )*)*];

        /// Makes a test of every case of the contract: the function takes a [`contract::Case`](crate::contract::Case)
        /// and checks it on an empty archive.
        #[macro_export]
        macro_rules! contract_tests {
            ($d check:path) => {
                $(mod $module {
                    $(#[test]
                    fn $case() {
                        let name = concat!(stringify!($module), "::", stringify!($case));
                        $d check($crate::contract::case(name));
                    })*
                })*
            };
        }
    };
}

/// The case with a name.
///
/// # Panics
///
/// If there is none.
pub fn case(name: &str) -> &'static Case {
    CASES.iter().find(|case| case.name == name).unwrap()
}

cases! { $
    sessions {
        entries_come_back_byte_for_byte
        ranges_give_what_is_there
        a_session_begins_once_and_has_one_owner
        a_session_that_is_renamed_keeps_its_id_and_all_it_has
        sessions_are_listed_by_activity
        sessions_are_looked_up
        where_a_session_comes_from_is_kept
        a_removed_session_takes_along_what_was_its_own
        a_session_that_is_not_there_cannot_be_verified
        any_name_is_a_session_of_its_own
        ids_without_a_session_are_only_ids
        threads_that_write_at_once_all_get_their_place
    }
    paths {
        rounds_begin_where_they_are_opened
        forks_share_what_is_before_them
        equal_words_said_twice_are_two_entries
        a_conversation_is_found_again_by_its_chain
        the_tree_is_that_of_the_entries
    }
    silence {
        what_follows_a_silent_entry_is_found_without_it
        the_links_are_those_of_the_conversation_without_silent_entries
        a_silent_entry_is_found_again_in_its_place_only
        a_conversation_may_begin_with_a_silent_entry
        a_path_with_many_silent_entries_is_found
        of_paths_that_differ_only_in_silence_the_longest_is_found
    }
    batches {
        a_batch_applies_to_every_path_that_holds_what_it_edits
        a_batch_edits_its_own_path
        a_batch_builds_on_the_newest_one_of_its_path
        undo_takes_back_the_newest_batch_of_a_path_and_the_log_keeps_it
        the_log_is_read_in_pages
        the_head_counts_what_was_undone
        pins_are_kept_in_order
        handles_lead_to_what_was_edited
        handles_are_looked_up_at_home_first_and_never_at_strangers
        variants_are_opened_by_their_handles
    }
    values {
        preambles_are_kept_once_for_each_owner
        requests_are_logged_as_they_are
        what_requests_take_is_added_up
        edits_and_regrets_are_added_up_by_day
        notes_are_kept_beside_their_requests
        answers_are_found_by_owner_and_the_newest_counts
        derived_data_is_replaced
        what_is_kept_under_a_key_is_found_by_the_beginning_of_it_and_goes_with_its_session
        money_is_reserved_within_a_cap_and_settled
    }
    search {
        the_newest_comes_first
        a_star_finds_words_that_begin_so
        parts_of_words_are_found_if_nothing_else_is
        names_are_found_whole_and_in_parts
        a_search_is_filtered_where_it_is_made
        calls_are_searched_by_what_they_say
        a_search_keeps_to_its_scope
        any_string_is_a_query
        what_fits_best_comes_first
        a_repeat_is_counted
        a_ranked_search_keeps_to_its_scope
        any_string_is_ranked
        any_text_is_stored_and_found
        a_hit_after_a_wide_space_is_quoted_from_the_word_after_it
    }
    writes {
        all_of_a_write_is_made
        nothing_of_a_write_is_made_that_expects_another_version
        every_change_of_the_state_makes_another_version
        many_sessions_are_written_to_in_one_transaction
        one_that_is_refused_fails_alone
        of_two_that_saw_one_version_the_first_is_made
        what_begins_a_session_that_is_there_is_refused
        a_session_that_was_begun_anew_is_another_one
        without_an_expected_version_the_session_must_be_there
        a_ledger_that_was_late_decides_anew
    }
    seam {
        since_an_older_version_a_session_opens_with_exactly_its_news
        since_a_foreign_birth_a_session_opens_with_everything
        an_opened_session_says_how_much_it_has
        entries_are_read_by_lists_of_ranges
        batches_are_read_by_their_numbers
        states_come_with_the_batches_that_they_are_asked_of
        a_conversation_is_found_by_one_of_its_last_eight_links
        a_value_is_put_in_the_place_of_the_one_that_was_expected
        a_handle_leads_to_the_first_batch_of_each_session
        a_refreshed_ledger_is_one_that_is_opened
    }
    layers {
        every_write_passes_a_layer
    }
}
