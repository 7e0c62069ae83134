//! A chain: two lists of filters, checked, and the stacks made of it.

mod moved;
mod succession;

pub use crate::clocked::Taken;

use crate::{
    Layer, Registry, Stack,
    clocked::{Chooser, Clocked, Sum, Turns},
    counters::Family,
    facts::{Fact, FastForward, SessionLog, Target},
    registry::{Built, Entry, Part, SHARED, Want},
    settings::{Mistake, Mistakes, Settings, suggest},
    timed::Timed,
};
use std::{
    collections::BTreeSet,
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};
use tower::Layer as _;

/// A configured chain. The first filter of a list is the first to see a command.
#[derive(Clone, Debug)]
pub struct Chain {
    name: Arc<str>,
    session: Vec<Entered>,
    backend: Vec<Entered>,
    given: BTreeSet<&'static str>,
    shares: bool,
    /// Each filter's work is a span of its own.
    timed: bool,
    /// Shared with the chains whose sessions can stay with it.
    identity: Arc<()>,
    bottoms: Bottoms,
    turns: Arc<Turns>,
}

/// What is taken below each of its lists.
#[derive(Clone, Debug, Default)]
struct Bottoms {
    dispatch: Arc<Sum>,
    connection: Arc<Sum>,
}

/// One filter of a chain.
#[derive(Clone, Debug)]
struct Entered {
    name: String,
    /// Of its settings, and of the files that they name.
    print: u64,
    layer: Layer,
    sum: Arc<Sum>,
}

/// One filter of a chain, for people.
#[derive(Debug)]
pub struct Filter<'a> {
    /// As `use` names it.
    pub name: &'a str,
    /// Which list it stands in.
    pub part: Part,
    /// What it counts, and what it shows of its settings.
    pub layer: &'a Layer,
    /// What it takes of commands, on its own.
    pub taken: Taken,
}

/// What the dispatcher below the session filters reads, as any filter would.
const DISPATCH_NEEDS: &str = Target::NAME;

impl Chain {
    /// Builds the chain that a `[chain.NAME]` table describes. Everything that is wrong with it is
    /// noted in `mistakes`; then the chain is not to be used.
    pub fn new(settings: &Settings, registry: &Registry, mistakes: &mut Mistakes) -> Self {
        settings.allow_keys(&["session", "backend", "multiplex"], mistakes);
        let shares = settings.flag("multiplex", mistakes).unwrap_or(false);
        let before = mistakes.len();
        let mut builder = Builder::new(registry, mistakes);
        if shares {
            builder.known.insert(SHARED);
        }
        let session = builder.list(settings, "session", Part::Session);
        // A filter with a mistake in it may have been the one.
        if !builder.known.contains(DISPATCH_NEEDS) && builder.mistakes.len() == before {
            let mistake = settings.mistake("the chain never says which server a command goes to");
            builder.mistakes.push(mistake.hint("end `session` with { use = \"route\" }"));
        }
        let backend = builder.list(settings, "backend", Part::Backend);
        builder.check_wants();
        let given = builder.known;
        if shares && !given.contains(SessionLog::NAME) && mistakes.len() == before {
            let text = "connections cannot be shared where nobody knows what sessions set there";
            let hint = "put { use = \"session-commands\" } into the chain's `session` list and { use \
                        = \"catch-up\" } into `backend`, or leave `multiplex` out";
            mistakes.push(settings.mistake_at("multiplex", text).hint(hint));
        }
        Self { shares, ..Self::of(session, backend, given) }
    }

    /// As [`Self::new`], from the table's text. The dispatcher's need is not checked: tests put a
    /// bottom of their own there.
    pub(crate) fn from_toml(text: &str, registry: &Registry) -> Result<Self, Mistakes> {
        let mut mistakes = Mistakes::default();
        let settings = Settings::parse("chain.toml", text, &mut mistakes);
        let mut builder = Builder::new(registry, &mut mistakes);
        let session = builder.list(&settings, "session", Part::Session);
        let backend = builder.list(&settings, "backend", Part::Backend);
        builder.check_wants();
        let given = builder.known;
        mistakes.into_result(Some(Self::of(session, backend, given)))
    }

    fn of(session: Vec<Entered>, backend: Vec<Entered>, given: BTreeSet<&'static str>) -> Self {
        let (name, identity, turns) = (Arc::default(), Arc::default(), Arc::default());
        let (shares, timed, bottoms) = (false, false, Bottoms::default());
        Self { name, session, backend, given, shares, timed, identity, bottoms, turns }
    }

    /// The same chain under its name.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.name = name.into();
        self
    }

    /// What the file calls it.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Its filters, from the client to the servers.
    pub fn filters(&self) -> impl Iterator<Item = Filter<'_>> {
        let session = with_next(&self.session, &self.bottoms.dispatch);
        let backend = with_next(&self.backend, &self.bottoms.connection);
        let session = session.map(|(one, next)| (Part::Session, one, next));
        let backend = backend.map(|(one, next)| (Part::Backend, one, next));
        session.chain(backend).map(|(part, Entered { name, layer, sum, .. }, next)| Filter {
            name,
            part,
            layer,
            taken: sum.without(next),
        })
    }

    /// What is taken between the two lists: by finding a connection, or opening one.
    pub fn taken_by_dispatch(&self) -> Taken {
        let below = self.backend.first().map_or(&self.bottoms.connection, |first| &first.sum);
        self.bottoms.dispatch.without(below)
    }

    /// What servers take, with the way to them.
    pub fn taken_by_servers(&self) -> Taken {
        self.bottoms.connection.all()
    }

    /// The same chain, in which each filter's work is a span of the crate `tracing` with its name,
    /// level debug, where it happens inside of a span.
    #[must_use]
    pub fn timed(self) -> Self {
        Self { timed: true, ..self }
    }

    /// Whether one of its filters attaches the fact of that name.
    pub fn gives(&self, fact: &str) -> bool {
        self.given.contains(fact)
    }

    /// Whether its sessions share their connections: between two commands, each is in the pool.
    pub fn shares(&self) -> bool {
        self.shares
    }

    /// Whether it only chooses a server and hands the session over.
    pub fn is_raw(&self) -> bool {
        let switches = self.gives(FastForward::NAME) && self.gives(Target::NAME);
        self.session.len() == 1 && self.backend.is_empty() && switches
    }

    /// What its filters count.
    pub fn counters(&self) -> impl Iterator<Item = &Family> {
        let entered = self.session.iter().chain(&self.backend);
        entered.flat_map(|entered| entered.layer.counters())
    }

    /// One session's stack, over whatever dispatches its commands to backends.
    pub fn session(&self, dispatch: Stack) -> Stack {
        if !self.turns.next() {
            return wrap(&self.session, self.timed, dispatch);
        }
        let dispatch = Stack::around(Clocked::new(&self.bottoms.dispatch, dispatch));
        Stack::around(Chooser::new(wrap_clocked(&self.session, self.timed, dispatch)))
    }

    /// One backend connection's stack, within one session.
    pub fn backend(&self, connection: Stack) -> Stack {
        let connection = Stack::around(Clocked::new(&self.bottoms.connection, connection));
        wrap_clocked(&self.backend, self.timed, connection)
    }
}

/// The filters of a list, each with the sum of what comes next.
fn with_next<'a>(
    list: &'a [Entered],
    bottom: &'a Arc<Sum>,
) -> impl Iterator<Item = (&'a Entered, &'a Arc<Sum>)> {
    let next = list.iter().skip(1).map(|entered| &entered.sum);
    list.iter().zip(next.chain([bottom]))
}

fn wrap(list: &[Entered], timed: bool, bottom: Stack) -> Stack {
    list.iter().rev().fold(bottom, |inner, entered| entered.over(inner, timed))
}

fn wrap_clocked(list: &[Entered], timed: bool, bottom: Stack) -> Stack {
    list.iter().rev().fold(bottom, |inner, entered| {
        Stack::around(Clocked::new(&entered.sum, entered.over(inner, timed)))
    })
}

impl Entered {
    fn over(&self, inner: Stack, timed: bool) -> Stack {
        let stack = self.layer.layer(inner);
        if timed { Stack::around(Timed::new(&self.name, stack)) } else { stack }
    }
}

/// Of settings and of files that they name.
fn print(settings: &Settings, files: &[String]) -> u64 {
    let mut hasher = DefaultHasher::new();
    settings.print().hash(&mut hasher);
    for file in files {
        std::fs::read(file).unwrap_or_default().hash(&mut hasher);
    }
    hasher.finish()
}

struct Builder<'a> {
    registry: &'a Registry,
    mistakes: &'a mut Mistakes,
    /// Facts given by the filters so far: those of the session's list reach the backend's.
    known: BTreeSet<&'static str>,
    /// The filters of the `backend` list.
    below: Vec<String>,
    /// What filters of the `session` list want there, each with the mistake that it is to miss it.
    wants: Vec<(&'static str, Mistake)>,
    /// What filters of this list want further down in it, likewise.
    wants_later: Vec<(&'static str, Mistake)>,
}

impl<'a> Builder<'a> {
    fn new(registry: &'a Registry, mistakes: &'a mut Mistakes) -> Self {
        let (below, wants, wants_later) = (Vec::new(), Vec::new(), Vec::new());
        Self { registry, mistakes, known: BTreeSet::new(), below, wants, wants_later }
    }

    fn list(&mut self, settings: &Settings, key: &str, part: Part) -> Vec<Entered> {
        let entries = settings.tables(key, self.mistakes);
        let layers = entries.iter().filter_map(|settings| self.filter(settings, part)).collect();
        for (_, mistake) in std::mem::take(&mut self.wants_later) {
            self.mistakes.push(mistake);
        }
        layers
    }

    fn filter(&mut self, settings: &Settings, part: Part) -> Option<Entered> {
        let Some(name) = settings.text("use", self.mistakes) else {
            if !settings.has("use") {
                let mistake = settings.mistake("which filter? the key `use` is missing");
                self.mistakes.push(mistake.hint("{ use = \"NAME\", ... }"));
            }
            return None;
        };
        let Some(entry) = self.registry.get(&name) else {
            let names: Vec<_> = self.registry.iter().map(|(name, _)| name).collect();
            let mistake = settings.mistake_at("use", format!("there is no filter {name:?}"));
            self.mistakes.push(suggest(mistake, &name, names, "there are"));
            return None;
        };
        self.check_place(settings, &name, entry, part);
        if let Some(wanted) = entry.wants_below {
            let text = format!("{name} needs {wanted} on the connections to servers");
            let mistake = settings.mistake_at("use", text);
            let hint = format!("put {{ use = {wanted:?} }} into the chain's `backend` list");
            self.wants.push((wanted, mistake.hint(hint)));
        }
        self.wants_later.retain(|(wanted, _)| *wanted != name);
        if part == Part::Backend {
            self.below.push(name.clone());
        }
        let files = self.mistakes.files().len();
        let built = entry.build(&settings.without("use"), self.mistakes, &self.known);
        for Want { filter, what } in built.iter().flat_map(|built| built.wants.clone()) {
            let text = format!("{what} does nothing without the filter {filter}");
            let mistake = settings.mistake_at("use", text);
            let hint = format!("put {{ use = {filter:?} }} below this one, above `route`");
            self.wants_later.push((filter, mistake.hint(hint)));
        }
        self.known.extend(built.as_ref().map_or(entry.gives, |built| built.gives));
        let print = print(settings, &self.mistakes.files()[files..]);
        built.map(|Built { layer, .. }| Entered { name, print, layer, sum: Arc::default() })
    }

    fn check_wants(&mut self) {
        for (wanted, mistake) in std::mem::take(&mut self.wants) {
            if !self.below.iter().any(|name| name == wanted) {
                self.mistakes.push(mistake);
            }
        }
    }

    fn check_place(&mut self, settings: &Settings, name: &str, entry: &Entry, part: Part) {
        let (here, there) = match part {
            Part::Backend => ("backend", "session"),
            _ => ("session", "backend"),
        };
        if entry.part != Part::Either && entry.part != part {
            let mistake = settings.mistake_at("use", format!("{name} does not work in `{here}`"));
            self.mistakes.push(mistake.hint(format!("move it to the chain's `{there}` list")));
        }
        for need in entry.needs.iter().filter(|need| !self.known.contains(*need)) {
            let message = format!("{name} needs `{need}`, which no filter above it gives");
            let givers = self.registry.iter().filter(|(_, other)| other.gives.contains(need));
            let givers: Vec<_> = givers.map(|(name, _)| format!("{{ use = {name:?} }}")).collect();
            let mistake = settings.mistake_at("use", message);
            self.mistakes.push(match givers.as_slice() {
                [] => mistake,
                some => mistake.hint(format!("put {} above it", some.join(" or "))),
            });
        }
    }
}
