//! Words that differ by slips of the keyboard.

/// The most letters of words that are compared.
const LETTERS_MAX: usize = 32;

/// How many slips are allowed in a word: more in longer ones.
pub(crate) fn slips_max(letters: usize) -> usize {
    match letters {
        0..=3 => 0,
        4..=7 => 1,
        _ => 2,
    }
}

/// How many slips lie between two words, if they are at most so many: a letter too many or too few, another letter,
/// or two that changed places.
pub(crate) fn slips(one: &[char], other: &[char], max: usize) -> Option<usize> {
    if one.len().abs_diff(other.len()) > max || one.len().max(other.len()) > LETTERS_MAX {
        return None;
    }
    let mut rows = [[0_usize; LETTERS_MAX + 1]; 3];
    for (at, cost) in rows[0].iter_mut().enumerate() {
        *cost = at;
    }
    for (row, letter) in one.iter().enumerate() {
        let (now, before, earlier) = ((row + 1) % 3, row % 3, (row + 2) % 3);
        rows[now][0] = row + 1;
        let mut least = row + 1;
        for (column, against) in other.iter().enumerate() {
            let replaced = rows[before][column] + usize::from(letter != against);
            let added = rows[now][column].min(rows[before][column + 1]) + 1;
            let mut cost = replaced.min(added);
            if row > 0 && column > 0 && *letter == other[column - 1] && one[row - 1] == *against {
                cost = cost.min(rows[earlier][column - 1] + 1);
            }
            rows[now][column + 1] = cost;
            least = least.min(cost);
        }
        if least > max {
            return None;
        }
    }
    Some(rows[one.len() % 3][other.len()]).filter(|slips| *slips <= max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(one: &str, other: &str, expected: Option<usize>) {
        let letters = |word: &str| word.chars().collect::<Vec<char>>();
        assert_eq!(slips(&letters(one), &letters(other), 2), expected, "{one} {other}");
        assert_eq!(slips(&letters(other), &letters(one), 2), expected, "{other} {one}");
    }

    #[test]
    fn slips_are_counted() {
        check("word", "word", Some(0));
        check("concurent", "concurrent", Some(1));
        check("diaylzer", "dialyzer", Some(1));
        check("balence", "balance", Some(1));
        check("compatability", "compatibility", Some(1));
        check("slover", "solver", Some(1));
        check("kitten", "sitting", None);
        check("", "ab", Some(2));
        check("größe", "grösse", Some(2));
        check(&"a".repeat(40), &"a".repeat(40), None);
    }
}
