//! OpenMetrics' text, read again.

/// The families of a text as [`render`](super::Metrics::render) makes it.
pub(crate) fn families(text: &str) -> Vec<Family<'_>> {
    let mut families: Vec<Family<'_>> = Vec::new();
    for line in text.lines() {
        let about = line.strip_prefix("# ").and_then(|about| about.split_once(' '));
        if let Some((what, rest)) = about {
            let (name, value) = rest.split_once(' ').unwrap_or((rest, ""));
            if families.last().is_none_or(|family| family.name != name) {
                families.push(Family { name, ..Family::default() });
            }
            let Some(family) = families.last_mut() else { continue };
            match what {
                "HELP" => family.help = value,
                "TYPE" => family.kind = value,
                "UNIT" => family.unit = value,
                _ => {}
            }
        } else if let (Some(family), Some(sample)) = (families.last_mut(), Sample::read(line)) {
            family.samples.push(sample);
        }
    }
    families
}

/// A family: what is said of it, and its samples.
#[derive(Default)]
pub(crate) struct Family<'a> {
    pub(crate) name: &'a str,
    pub(crate) help: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) unit: &'a str,
    pub(crate) samples: Vec<Sample<'a>>,
}

/// A sample. Its name is the family's, with the suffix of its kind.
pub(crate) struct Sample<'a> {
    pub(crate) name: &'a str,
    pub(crate) labels: Vec<(&'a str, String)>,
    pub(crate) value: f64,
}

impl<'a> Sample<'a> {
    fn read(line: &'a str) -> Option<Self> {
        let end = line.find(['{', ' '])?;
        let (name, mut rest) = line.split_at(end);
        let mut labels = Vec::new();
        if let Some(mut inner) = rest.strip_prefix('{') {
            while let Some((key, value)) = inner.split_once("=\"") {
                let (value, after) = unquoted(value)?;
                labels.push((key, value));
                inner = after.strip_prefix(',').unwrap_or(after);
            }
            rest = inner.strip_prefix('}')?;
        }
        let value = rest.trim_start().split(' ').next()?.parse().ok()?;
        Some(Self { name, labels, value })
    }

    /// The value of a label.
    pub(crate) fn label(&self, key: &str) -> Option<&str> {
        self.labels.iter().find(|(known, _)| *known == key).map(|(_, value)| value.as_str())
    }
}

/// Up to the quote that ends a label's value, and what follows that.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let (mut value, mut escaped) = (String::new(), false);
    for (at, letter) in text.char_indices() {
        match letter {
            _ if std::mem::take(&mut escaped) => {
                value.push(if letter == 'n' { '\n' } else { letter })
            }
            '\\' => escaped = true,
            '"' => return Some((value, &text[at + 1..])),
            _ => value.push(letter),
        }
    }
    None
}
