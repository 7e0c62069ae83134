//! What the filter promises, without a socket.

mod alone;

use chain::{
    Command, Registry, Reply, Result, Stack,
    facts::{ServedBy, SessionLog, Target},
    testing::{self, Client, Log},
};
use std::sync::{Arc, Mutex};
use wire::{command::CommandCode, status::Status};

/// A session whose bottom answers OK, and what reached it.
struct Bed {
    client: Client,
    /// Commands, by their names, with the text of queries.
    reached: Log,
    /// The log that the last command carried.
    log: Arc<Mutex<Option<SessionLog>>>,
}

impl Bed {
    fn new(settings: &str) -> Self {
        Self::answering(settings, |command| Reply::ok(command, Status::AUTOCOMMIT))
    }

    fn answering(
        settings: &str,
        mut answer: impl FnMut(&Command) -> Reply + Send + 'static,
    ) -> Self {
        let text = format!(
            "session = [{{ use = 'parse' }}, {{ use = 'session-commands'{settings} }}, {{ use = 'route' }}]
             backend = [{{ use = 'catch-up' }}]"
        );
        let registry = Registry::default()
            .with::<testing::Statements>()
            .with::<session_commands::Factory>()
            .with_layer("route", testing::passes)
            .with_layer("catch-up", testing::passes);
        let chain = testing::chain(&text, &registry).expect("right settings");
        let (reached, log) = (Log::default(), Arc::<Mutex<_>>::default());
        let (seen, given) = (reached.clone(), log.clone());
        let bottom: Stack = testing::answering(move |command: Command| -> Result<Reply> {
            let text = testing::text(&command);
            seen.push(match command.code() {
                CommandCode::QUERY => text.as_str(),
                _ => command.code().name(),
            });
            *given.lock().expect("nobody panics with it") = command.fact::<SessionLog>().cloned();
            let group = &command.session().topology.hostgroups()[0];
            let target = Target { hostgroup: group.id, server: group.servers[0].clone() };
            Ok(answer(&command).with(ServedBy(target)))
        });
        Self { client: Client::new(chain.session(bottom)), reached, log }
    }

    /// The last packet of the reply.
    fn send(&mut self, code: CommandCode, payload: &[u8]) -> Vec<u8> {
        let answer = self.client.send(Command::new(testing::session(), code, payload));
        answer.expect("the bottom answers").end.packet.to_vec()
    }

    /// What the log had in it that the last command carried.
    fn log(&self) -> Vec<(CommandCode, String)> {
        let log = self.log.lock().expect("nobody panics with it");
        let entries = log.iter().flat_map(|log| log.entries.iter());
        entries
            .map(|entry| (entry.code, String::from_utf8_lossy(&entry.payload).into_owned()))
            .collect()
    }
}
