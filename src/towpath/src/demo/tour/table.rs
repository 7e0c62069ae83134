//! The tour's table.

use super::Stop;
use super::script::Expected;
use crate::demo::screen::Mark;

const HEAD: [&str; 4] = ["session", "statement", "expected", "server that ran it"];

/// Rows with a mark at their end, then what holds for several of them, each line indented.
pub(super) fn render(stops: &[Stop], findings: &[(Mark, String)], terminal: bool) -> String {
    let rows: Vec<[String; 4]> = stops.iter().map(row).collect();
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([HEAD[column].len()]).max().unwrap_or_default()
    };
    let widths: [usize; 4] = [width(0), width(1), width(2), width(3)];
    let line = |cells: [&str; 4], end: &str| {
        let padded = cells.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
        format!("  {}  {end}", padded.collect::<Vec<_>>().join("  ")).trim_end().to_owned()
    };
    let mut lines = vec![line(HEAD, "")];
    let rules = widths.map(|width| "-".repeat(width));
    lines.push(line([&rules[0], &rules[1], &rules[2], &rules[3]], ""));
    for (row, stop) in rows.iter().zip(stops) {
        lines.push(line([&row[0], &row[1], &row[2], &row[3]], stop.mark().shown(terminal)));
        lines.extend(stop.wrong.iter().map(|wrong| format!("      {wrong}")));
    }
    lines.push(String::new());
    let finding = |(mark, text): &(Mark, String)| format!("  {} {text}", mark.shown(terminal));
    lines.extend(findings.iter().map(finding));
    lines.join("\n")
}

fn row(stop: &Stop) -> [String; 4] {
    let expected = match stop.statement.expected {
        Expected::Primary => "primary",
        Expected::Replica => "a replica",
    };
    [
        stop.statement.who.session().to_owned(),
        stop.statement.text.to_owned(),
        expected.to_owned(),
        stop.where_it_ran(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::tour::script::{Statement, Wanted, Who};

    #[test]
    fn columns_stand_under_each_other() {
        static STATEMENT: Statement = Statement {
            who: Who::Writer,
            text: "SELECT 1",
            expected: Expected::Primary,
            answer: Wanted::Row("1"),
            transaction: false,
        };
        let good = Stop { statement: &STATEMENT, ran: vec![(1, 5)], wrong: None };
        let bad = Stop { statement: &STATEMENT, ran: vec![(3, 5)], wrong: Some("why".to_owned()) };
        let text = render(&[good, bad], &[(Mark::Good, "all of it".to_owned())], false);
        assert_eq!(
            text.lines().collect::<Vec<_>>(),
            [
                "  session   statement  expected  server that ran it",
                "  --------  ---------  --------  ------------------",
                "  A writer  SELECT 1   primary   primary             ok",
                "  A writer  SELECT 1   primary   replica2            BAD",
                "      why",
                "",
                "  ok    all of it",
            ]
        );
    }
}
