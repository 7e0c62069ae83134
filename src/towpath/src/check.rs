//! `towpath check` and `towpath schema`, and how mistakes look.

use anstyle::{AnsiColor, Style};
use chain::{
    Registry,
    settings::{Mistake, Mistakes},
};
use proxy::config::Config;
use std::{fmt, io::Write as _, path::Path, process::ExitCode};

/// Says whether the file is good, and everything that is wrong with it.
pub(crate) fn check(file: &Path, registry: &Registry) -> ExitCode {
    match load(file, registry) {
        Ok(config) => {
            anstream::println!("{} is good: {}", file.display(), config.summary());
            ExitCode::SUCCESS
        }
        Err(code) => code,
    }
}

/// Prints the JSON Schema of the configuration file.
pub(crate) fn schema(registry: &Registry) -> ExitCode {
    let text = format!("{:#}\n", Config::schema(registry));
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// The configuration, or its mistakes printed to standard error and the exit code 1.
pub(crate) fn load(file: &Path, registry: &Registry) -> Result<Config, ExitCode> {
    Config::load(file, registry).map_err(|mistakes| {
        anstream::eprintln!("{}", Coloured(&mistakes));
        ExitCode::FAILURE
    })
}

/// All mistakes and their number, in colour; `anstream` takes the colours out where nobody sees
/// them.
struct Coloured<'a>(&'a Mistakes);

impl fmt::Display for Coloured<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for mistake in self.0.iter() {
            coloured(f, mistake)?;
            f.write_str("\n\n")?;
        }
        let count = self.0.len();
        let error = AnsiColor::Red.on_default().bold();
        write!(f, "{error}{count} mistake{}{error:#}", if count == 1 { "" } else { "s" })
    }
}

/// One mistake, laid out as its own `Display` does it.
fn coloured(f: &mut fmt::Formatter<'_>, mistake: &Mistake) -> fmt::Result {
    let (bold, error) = (Style::new().bold(), AnsiColor::Red.on_default().bold());
    let frame = AnsiColor::Blue.on_default().bold();
    let help = AnsiColor::Cyan.on_default().bold();

    let Mistake { file, line, column, source_line, indent, width, message, .. } = mistake;
    let margin = " ".repeat(line.to_string().len());
    writeln!(f, "{error}error{error:#}{bold}: {message}{bold:#}")?;
    if *line == 0 {
        write!(f, "{frame} -->{frame:#} {file}")?;
    } else {
        writeln!(f, "{frame}{margin}-->{frame:#} {file}:{line}:{column}")?;
        writeln!(f, "{frame}{margin} |\n{line} |{frame:#} {source_line}")?;
        let carets = "^".repeat(*width);
        write!(f, "{frame}{margin} |{frame:#} {indent}{error}{carets}{error:#}")?;
    }
    match &mistake.hint {
        Some(hint) => write!(f, "\n{frame}{margin} ={frame:#} {help}help{help:#}: {hint}"),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chain::settings::Settings;

    fn mistakes() -> Mistakes {
        let mut mistakes = Mistakes::default();
        let settings = Settings::parse("f.toml", "# a\nprot = 1\n", &mut mistakes);
        settings.allow_keys(&["port"], &mut mistakes);
        mistakes
    }

    #[test]
    fn colours_change_nothing_but_the_colour() {
        let coloured = Coloured(&mistakes()).to_string();
        let plain = anstream::adapter::strip_str(&coloured).to_string();
        assert_eq!(plain, format!("{}\n\n1 mistake", mistakes()));
        assert_ne!(plain, coloured);
    }

    #[test]
    fn frame_caret_and_hint_have_their_colours() {
        let coloured = Coloured(&mistakes()).to_string();
        let (red, blue) = ("\u{1b}[1m\u{1b}[31m", "\u{1b}[1m\u{1b}[34m");
        assert!(coloured.contains(&format!("{blue} -->\u{1b}[0m f.toml:2:1")), "{coloured:?}");
        assert!(coloured.contains(&format!("{red}^^^^")), "{coloured:?}");
        assert!(coloured.contains("2 |\u{1b}[0m prot = 1"), "{coloured:?}");
        assert!(coloured.contains("help\u{1b}[0m: did you mean `port`?"), "{coloured:?}");
    }
}
