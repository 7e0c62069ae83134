//! Tables and quantities for people.

use anstyle::{AnsiColor, Style};
use std::fmt::Write as _;

/// Rows of cells below a head. Columns are as wide as they must be; `right` says which are numbers.
pub(crate) struct Table {
    head: Vec<&'static str>,
    right: Vec<bool>,
    rows: Vec<Vec<(String, Style)>>,
}

impl Table {
    /// A column whose name begins with `>` is a number's.
    pub(crate) fn new(head: &[&'static str]) -> Self {
        let right = head.iter().map(|name| name.starts_with('>')).collect();
        let head = head.iter().map(|name| name.trim_start_matches('>')).collect();
        Self { head, right, rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: Vec<(String, Style)>) {
        self.rows.push(cells);
    }

    /// With styles; who prints it takes them out where nobody sees them.
    pub(crate) fn text(&self) -> String {
        let width = |at: usize| {
            let cells = self.rows.iter().map(|row| row[at].0.chars().count());
            cells.chain([self.head[at].len()]).max().unwrap_or_default()
        };
        let widths: Vec<_> = (0..self.head.len()).map(width).collect();
        let dim = Style::new().dimmed();
        let head = self.head.iter().map(|name| ((*name).to_owned(), dim)).collect();
        let mut out = String::new();
        for row in std::iter::once(&head).chain(&self.rows) {
            let mut line = String::new();
            for (at, (cell, style)) in row.iter().enumerate() {
                let pad = " ".repeat(widths[at].saturating_sub(cell.chars().count()));
                let (left, right) =
                    if self.right[at] { (pad, String::new()) } else { (String::new(), pad) };
                let _ = write!(line, "{left}{style}{cell}{style:#}{right}  ");
            }
            let _ = writeln!(out, "{}", line.trim_end());
        }
        out
    }
}

/// A cell without a style.
pub(crate) fn plain(text: impl ToString) -> (String, Style) {
    (text.to_string(), Style::new())
}

/// A state of a server's, in its colour.
pub(crate) fn state(state: &str) -> (String, Style) {
    let colour = match state {
        "online" | "running" => AnsiColor::Green,
        "lagging" | "offline-soft" | "draining" => AnsiColor::Yellow,
        _ => AnsiColor::Red,
    };
    (state.to_owned(), colour.on_default())
}

/// A time, as short as it can be read.
pub(crate) fn seconds(seconds: f64) -> String {
    match seconds {
        s if s < 0.001 => format!("{:.0} us", s * 1e6),
        s if s < 1.0 => format!("{:.1} ms", s * 1e3),
        s if s < 120.0 => format!("{s:.1} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.1} h", s / 3600.0),
        s => format!("{:.1} d", s / 86_400.0),
    }
}

#[cfg(test)]
mod tests {
    use super::{Table, plain, seconds, state};

    #[test]
    fn columns_are_as_wide_as_they_must_be() {
        let mut table = Table::new(&["name", ">count"]);
        table.row(vec![state("online"), plain(7)]);
        table.row(vec![plain("db1.example"), plain(12_345)]);
        let text = anstream::adapter::strip_str(&table.text()).to_string();
        assert_eq!(text, "name         count\nonline           7\ndb1.example  12345\n");
    }

    #[test]
    fn times_are_short() {
        let times = [0.000_05, 0.25, 1.0, 600.0, 9000.0, 864_000.0].map(seconds);
        assert_eq!(times, ["50 us", "250.0 ms", "1.0 s", "10 min", "2.5 h", "10.0 d"]);
    }
}
