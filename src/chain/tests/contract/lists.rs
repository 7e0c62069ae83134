//! Two lists of filters, and the order in which a command meets them.

use chain::{
    Chain, Command, Filter, FilterFactory, Next, Part, Registry, Reply, Result, each_session,
    facts::Fact,
    registry::IntoLayer,
    settings::{Mistakes, Settings},
    testing::{self, Client, Log, ok},
};
use schemars::JsonSchema;
use serde::Deserialize;
use tower::BoxError;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nothing {}

/// Says its name on a command's way down and on the reply's way up.
struct Says(&'static str, Log);

impl Filter for Says {
    async fn handle(&mut self, command: Command, next: Next<'_>) -> Result<Reply> {
        self.1.push(format!("{} down", self.0));
        let reply = next.run(command).await?;
        let (name, log) = (self.0, self.1.clone());
        Ok(reply.map_body(move |body| body.on_end(move |_| log.push(format!("{name} up")))))
    }
}

/// Filters that say their names, and some that need and give facts.
pub(crate) fn registry(log: &Log) -> Registry {
    let says = |name| {
        let log = log.clone();
        move |_: Nothing| {
            let log = log.clone();
            Ok(each_session(move || Says(name, log.clone())))
        }
    };
    Registry::default()
        .with_layer("one", says("one"))
        .with_layer("two", says("two"))
        .with_layer("three", says("three"))
        .with::<Gives>()
        .with::<Needs>()
        .with::<Backend>()
        .with::<Routes>()
}

pub(crate) struct Weather;

impl Fact for Weather {
    const NAME: &'static str = "weather";
}

macro_rules! factories {
    ($($name:ident $text:literal $part:ident needs $needs:expr, gives $gives:expr;)*) => {$(
        pub(crate) struct $name;

        impl FilterFactory for $name {
            const NAME: &'static str = $text;
            const NEEDS: &'static [&'static str] = $needs;
            const GIVES: &'static [&'static str] = $gives;
            const PART: Part = Part::$part;
            type Config = Nothing;

            fn build(_: Nothing) -> Result<impl IntoLayer, BoxError> {
                Ok(tower::layer::util::Identity::new())
            }
        }
    )*};
}

factories! {
    Gives "gives" Either needs &[], gives &[Weather::NAME];
    Needs "needs" Either needs &[Weather::NAME], gives &[];
    Backend "backend-only" Backend needs &[Weather::NAME], gives &[];
    Routes "routes" Session needs &[], gives &[chain::facts::Target::NAME];
}

#[test]
fn the_first_of_a_list_is_the_first_to_see_a_command_and_the_last_to_see_its_reply() {
    let log = Log::default();
    let text = "session = [{ use = 'one' }, { use = 'two' }]\nbackend = [{ use = 'three' }]";
    let chain = testing::chain(text, &registry(&log)).unwrap();
    let stack = chain.session(chain.backend(ok(log.clone())));
    Client::new(stack).query("SELECT 1").unwrap();
    let way = ["one down", "two down", "three down", "SELECT 1", "three up", "two up", "one up"];
    assert_eq!(log.take(), way);
}

#[test]
fn a_list_may_be_empty_and_a_filter_may_stand_twice() {
    let log = Log::default();
    let chain = testing::chain("session = [{ use = 'one' }, { use = 'one' }]", &registry(&log));
    let chain = chain.unwrap();
    Client::new(chain.session(ok(log.clone()))).query("SELECT 1").unwrap();
    assert_eq!(log.take(), ["one down", "one down", "SELECT 1", "one up", "one up"]);
    Client::new(chain.backend(ok(log.clone()))).query("SELECT 1").unwrap();
    assert_eq!(log.take(), ["SELECT 1"]);
}

#[test]
fn facts_given_in_the_session_list_reach_the_backend_list() {
    let text =
        "session = [{ use = 'gives' }]\nbackend = [{ use = 'backend-only' }, { use = 'needs' }]";
    testing::chain(text, &registry(&Log::default())).unwrap();
}

#[test]
fn facts_given_in_the_backend_list_do_not_reach_the_session_list() {
    let text = "session = [{ use = 'needs' }]\nbackend = [{ use = 'gives' }]";
    let mistakes = testing::chain(text, &registry(&Log::default())).unwrap_err();
    assert!(mistakes.to_string().contains("needs needs `weather`"), "{mistakes}");
}

#[test]
fn a_chain_of_a_file_must_say_where_commands_go() {
    let build = |text: &str| {
        let mut mistakes = Mistakes::default();
        let settings = Settings::parse("towpath.toml", text, &mut mistakes);
        let chain = Chain::new(&settings, &registry(&Log::default()), &mut mistakes);
        mistakes.into_result(Some(chain))
    };
    build("session = [{ use = 'routes' }]").unwrap();
    for text in ["session = [{ use = 'one' }]", "", "session = []\nbackend = []"] {
        let mistakes = build(text).unwrap_err().to_string();
        assert!(mistakes.contains("the chain never says which server"), "{mistakes}");
        assert!(mistakes.contains("{ use = \"route\" }"), "{mistakes}");
    }
    // a filter with a mistake in it may have been the one
    let mistakes = build("session = [{ use = 'rout' }]").unwrap_err();
    assert_eq!(mistakes.len(), 1, "{mistakes}");
}

#[test]
#[should_panic(expected = "two filters are named \"one\"")]
fn a_name_belongs_to_one_filter() {
    let identity = |_: Nothing| Ok(tower::layer::util::Identity::new());
    let _ = registry(&Log::default()).with_layer("one", identity);
}

#[test]
fn a_registry_knows_its_filters_by_name() {
    let registry = registry(&Log::default());
    let names: Vec<_> = registry.iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["backend-only", "gives", "needs", "one", "routes", "three", "two"]);
    assert_eq!(registry.get("needs").unwrap().needs, [Weather::NAME]);
    assert!(registry.get("four").is_none());
    let mut generator = schemars::SchemaGenerator::default();
    let schema = registry.get("one").unwrap().schema(&mut generator);
    assert_eq!(schema.get("additionalProperties"), Some(&false.into()));
}
