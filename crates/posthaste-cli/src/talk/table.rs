//! Tables that fit 100 columns: the widest column gives way first, those that must be copied whole never do.

/// The width every table fits into.
const WIDTH: usize = 100;
const GAP: usize = 2;
/// No column becomes narrower than this.
const LEAST: usize = 8;

/// A heading and rows of the same number of cells.
#[derive(Debug)]
pub(crate) struct Table {
    /// How many columns, from the left, are never cut: ids and names.
    whole: usize,
    head: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(whole: usize, head: impl IntoIterator<Item = &'static str>) -> Self {
        Self { whole, head: head.into_iter().collect(), rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The heading, then a line per row.
    pub(crate) fn lines(&self) -> Vec<String> {
        let widths = self.widths();
        let head: Vec<String> = self.head.iter().map(|word| word.to_uppercase()).collect();
        std::iter::once(&head).chain(&self.rows).map(|row| line(row, &widths)).collect()
    }

    fn widths(&self) -> Vec<usize> {
        let longest = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
            cells.chain([self.head[column].len()]).max().unwrap_or(0)
        };
        let mut widths: Vec<usize> = (0..self.head.len()).map(longest).collect();
        let room = WIDTH.saturating_sub(GAP * widths.len().saturating_sub(1));
        while widths.iter().sum::<usize>() > room {
            let over = widths.iter().sum::<usize>() - room;
            let Some(widest) = widths.iter_mut().skip(self.whole).max() else { break };
            if *widest <= LEAST {
                break;
            }
            *widest = widest.saturating_sub(over.min(4)).max(LEAST);
        }
        widths
    }
}

fn line(cells: &[String], widths: &[usize]) -> String {
    let fitted = cells.iter().zip(widths).map(|(cell, width)| fit(cell, *width));
    fitted.collect::<Vec<_>>().join(&" ".repeat(GAP)).trim_end().to_owned()
}

/// Cut with an ellipsis, or filled up with spaces.
pub(crate) fn fit(text: &str, width: usize) -> String {
    match text.chars().count() > width {
        true => text.chars().take(width.saturating_sub(1)).chain(['…']).collect(),
        false => format!("{text:<width$}"),
    }
}

/// Lines of words, none longer than the width a table has after the indent.
pub(crate) fn wrapped(text: &str, indent: usize) -> Vec<String> {
    let (room, mut lines, mut current) = (WIDTH - indent, Vec::new(), String::new());
    for word in text.split(' ') {
        if !current.is_empty() && current.chars().count() + 1 + word.chars().count() > room {
            lines.push(std::mem::take(&mut current));
        }
        if !current.is_empty() {
            current.push(' ');
        }
        current.push_str(word);
    }
    lines.push(current);
    lines.into_iter().map(|line| format!("{}{line}", " ".repeat(indent))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_cell_gives_way_and_the_others_stay() {
        let mut table = Table::new(1, ["id", "error"]);
        table.row(["x".repeat(36), "e".repeat(500)]);
        table.row(["y".to_owned(), "größe".to_owned()]);
        let lines = table.lines();
        assert!(lines.iter().all(|line| line.chars().count() <= WIDTH), "{lines:#?}");
        assert!(lines[1].starts_with(&"x".repeat(36)) && lines[1].ends_with('…'), "{lines:#?}");
        assert_eq!(lines[2].find("größe"), lines[0].find("ERROR"));
    }

    #[test]
    fn an_id_is_never_cut() {
        let mut table = Table::new(1, ["id", "a", "b", "c"]);
        table.row([36, 90, 90, 90].map(|width| "x".repeat(width)));
        let lines = table.lines();
        assert!(lines[1].starts_with(&"x".repeat(36)) && lines[1].chars().count() <= WIDTH, "{lines:#?}");
    }

    #[test]
    fn many_long_columns_fit_too() {
        let mut table = Table::new(0, ["a", "b", "c", "d", "e", "f"]);
        table.row((0..6).map(|n| "w".repeat(30 + n)));
        assert!(table.lines().iter().all(|line| line.chars().count() <= WIDTH));
    }

    #[test]
    fn words_wrap_within_the_width() {
        let lines = wrapped(&"word ".repeat(60), 4);
        assert!(lines.len() > 2 && lines.iter().all(|line| line.chars().count() <= WIDTH));
        assert!(lines.iter().all(|line| line.starts_with("    ")));
    }
}
