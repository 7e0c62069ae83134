//! How what has been seen looks.

use super::seen::{Digest, Overview, Pool, Seen};
use crate::{sessions::Session, text};
use anstyle::AnsiColor;
use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::{Color, Style, Stylize},
    text::{Line, Span},
    widgets::{Block, Paragraph, Row, Sparkline, Table, Tabs},
};

/// What the lower part shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum View {
    #[default]
    Sessions,
    Statements,
}

impl View {
    pub(crate) const ALL: [Self; 2] = [Self::Sessions, Self::Statements];

    /// The one so many places further on.
    pub(crate) fn next(self, places: usize) -> Self {
        Self::ALL[(self as usize + places) % Self::ALL.len()]
    }
}

pub(crate) fn draw(frame: &mut Frame<'_>, seen: &Seen, view: View) {
    let Some(overview) = &seen.last else { return };
    let servers = u16::try_from(overview.pools.len()).unwrap_or(u16::MAX).min(12) + 3;
    let areas = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(6),
        Constraint::Length(servers),
        Constraint::Length(1),
        Constraint::Min(3),
        Constraint::Length(1),
    ]);
    let [head, rate, pools, tabs, below, foot] = areas.areas(frame.area());
    frame.render_widget(title(overview), head);
    let now = seen.rates.back().copied().unwrap_or_default();
    let newest: Vec<u64> = seen.rates.iter().rev().take(rate.width.into()).rev().copied().collect();
    let block = Block::bordered().title(format!(" {now} commands a second "));
    frame.render_widget(Sparkline::default().block(block).data(newest).cyan(), rate);
    frame.render_widget(server_table(overview, seen), pools);
    let names = View::ALL.map(|view| format!("{view:?}"));
    let tab =
        Tabs::new(names).select(view as usize).highlight_style(Style::new().bold().reversed());
    frame.render_widget(tab, tabs);
    match view {
        View::Sessions => frame.render_widget(session_table(&overview.sessions.sessions), below),
        View::Statements => statements(frame, overview.digests.as_deref(), below),
    }
    let foot_line = match &seen.failure {
        Some(why) => Line::from(why.as_str()).red(),
        None => Line::from("Tab: the other view   q: end").dim(),
    };
    frame.render_widget(foot_line, foot);
}

fn title(overview: &Overview) -> Line<'_> {
    let status = &overview.status;
    Line::from(vec![
        Span::from(format!("towpath {} ", status.version)).bold(),
        Span::styled(status.state.as_str(), state_style(&status.state)),
        Span::from(format!(
            " for {}, {} clients",
            text::seconds(status.uptime_seconds),
            status.sessions
        )),
    ])
}

fn server_table<'a>(overview: &'a Overview, seen: &Seen) -> Table<'a> {
    let row = |pool: &'a Pool| {
        let moved = seen.servers.get(&pool.key()).copied().unwrap_or_default();
        Row::new([
            Span::from(pool.server.as_str()),
            Span::from(pool.hostgroup.to_string()),
            Span::styled(pool.state.as_str(), state_style(&pool.state)),
            Span::from(format!("{:.0}", moved.rate)),
            Span::from(moved.time.map_or("-".to_owned(), text::seconds)),
            Span::from(pool.outstanding.to_string()),
            Span::from(pool.attached.to_string()),
            Span::from(pool.idle.to_string()),
        ])
    };
    let widths = [24, 9, 13, 8, 10, 11, 8, 6].map(Constraint::Length);
    let head =
        ["server", "hostgroup", "state", "a second", "each", "outstanding", "attached", "idle"];
    let table = Table::new(overview.pools.iter().map(row), widths);
    table.header(Row::new(head).dim()).block(Block::bordered().title(" Servers "))
}

fn session_table(sessions: &[Session]) -> Table<'_> {
    let row = |session: &Session| {
        let (doing, style) = session.doing();
        Row::new([
            Span::from(session.id.to_string()),
            Span::from(format!("{}@{}", session.user, session.client)),
            Span::styled(doing, terminal_style(style)),
            Span::from(session.chain().to_owned()),
            Span::from(session.holds()),
            Span::from(session.pins()),
        ])
    };
    let widths = [
        Constraint::Length(10),
        Constraint::Length(28),
        Constraint::Length(14),
        Constraint::Length(14),
        Constraint::Fill(1),
        Constraint::Fill(1),
    ];
    let table = Table::new(sessions.iter().map(row), widths);
    table.header(Row::new(["id", "user", "doing", "chain", "holds", "pins"]).dim())
}

fn statements(frame: &mut Frame<'_>, digests: Option<&[Digest]>, area: Rect) {
    let Some(digests) = digests else {
        let off = "Not counted: [admin] digests = 1000 counts the thousand first.";
        return frame.render_widget(Paragraph::new(off).dim(), area);
    };
    let row = |digest: &Digest| {
        Row::new([
            digest.calls.to_string(),
            digest.errors.to_string(),
            text::seconds(digest.seconds),
            text::seconds(digest.p99_seconds),
            digest.user.clone(),
            digest.text.clone(),
        ])
    };
    let widths = [
        Constraint::Length(10),
        Constraint::Length(8),
        Constraint::Length(10),
        Constraint::Length(10),
        Constraint::Length(14),
        Constraint::Fill(1),
    ];
    let table = Table::new(digests.iter().map(row), widths);
    let table =
        table.header(Row::new(["calls", "errors", "all", "p99", "user", "statement"]).dim());
    frame.render_widget(table, area);
}

fn state_style(state: &str) -> Style {
    terminal_style(text::state(state).1)
}

/// A style of the tables' as the screen has it: its colour.
fn terminal_style(style: anstyle::Style) -> Style {
    let colour = |ansi: AnsiColor| match ansi {
        AnsiColor::Green => Color::Green,
        AnsiColor::Yellow => Color::Yellow,
        AnsiColor::Red => Color::Red,
        _ => Color::Reset,
    };
    match style.get_fg_color() {
        Some(anstyle::Color::Ansi(ansi)) => Style::new().fg(colour(ansi)),
        _ => Style::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::{View, draw};
    use crate::top::seen::Seen;
    use ratatui::{Terminal, backend::TestBackend};
    use serde_json::json;

    fn seen() -> Seen {
        let mut seen = Seen::default();
        for commands in [100, 142] {
            let overview = json!({
                "unix_time": commands / 42,
                "status": { "version": "0.1.0", "uptime_seconds": 61, "state": "running", "sessions": 1 },
                "totals": { "commands": commands },
                "pools": [{
                    "hostgroup": 3, "server": "db1", "state": "shunned", "attached": 1, "idle": 4,
                    "outstanding": 1, "answered": commands, "answered_seconds": 0.001 * f64::from(commands),
                }],
                "sessions": { "total": 1, "sessions": [{
                    "id": 7, "user": "app", "client": "10.0.0.9", "schema": null, "chain": "main",
                    "age_seconds": 9, "commands": 5, "running": true, "since_seconds": 2.5,
                    "in_transaction": true, "fast_forward": false,
                    "connections": [{ "hostgroup": 3, "server": "db1" }],
                    "pins": ["lock"], "sticky": "off", "sticky_servers": [],
                }] },
                "digests": [{
                    "text": "SELECT ?", "user": "app", "calls": 9, "errors": 1, "seconds": 0.5,
                    "p99_seconds": 0.1,
                }],
            });
            seen.add(serde_json::from_value(overview).expect("an overview"));
        }
        seen
    }

    fn screen(seen: &Seen, view: View) -> String {
        let mut terminal = Terminal::new(TestBackend::new(110, 24)).expect("a terminal");
        terminal.draw(|frame| draw(frame, seen, view)).expect("it is drawn");
        terminal.backend().to_string()
    }

    #[test]
    fn everything_has_its_place() {
        let mut seen = seen();
        let sessions = screen(&seen, View::Sessions);
        for words in [
            "42 commands a second",
            "db1",
            "shunned",
            "1.0 ms",
            "app@10.0.0.9",
            "runs 2.5 s",
            "transaction, lock",
            "1 clients",
        ] {
            assert!(sessions.contains(words), "{words:?} in\n{sessions}");
        }
        let statements = screen(&seen, View::default().next(1));
        assert!(statements.contains("SELECT ?") && !statements.contains("app@"), "{statements}");
        seen.failed("no answer".to_owned());
        assert!(screen(&seen, View::Sessions).contains("no answer"));
    }
}
