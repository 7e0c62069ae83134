//! A configuration: made whole without a change to anything, then put into use.

use super::{Door, Live, StartError, fleet};
use crate::{
    backend::{Backend, Fleet, dispatch::Shared, health::Health},
    config::{self, ClientCertificate, Config, ListenerTlsMode, LoginBy},
    greeter::{Greeter, Model},
    listen::{self, Acceptor},
    reload::Inherited,
    session::{Context, login::Entrance, relay::Relay, slow::SlowLog, watch::Watchers},
    tls::{Watched, renewal},
    users::Users,
};
use chain::{Chain, HostgroupId, Server, Topology};
use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::Ordering::Relaxed},
};

/// A configuration in use.
pub(crate) struct World {
    pub(crate) config: Config,
    /// One for each of the configuration's, in its order.
    pub(crate) servers: Vec<Arc<Server>>,
    pub(crate) users: Arc<Users>,
    /// One for each of the configuration's listeners, in its order.
    pub(crate) doors: Vec<Arc<Door>>,
    slow: Option<Arc<SlowLog>>,
}

/// A configuration that can be put into use: nothing that it needs is missing any more.
pub(super) struct Plan {
    config: Config,
    servers: Vec<Arc<Server>>,
    topology: Arc<Topology>,
    health: Arc<Health>,
    /// One for each of the servers.
    backends: Vec<Arc<Backend>>,
    /// Those that another one takes the place of.
    succeeded: Vec<(Arc<Backend>, Arc<Backend>)>,
    leaving: Vec<Arc<Backend>>,
    entries: Vec<Entry>,
}

/// One listener.
struct Entry {
    at: At,
    tls: Option<Arc<Watched<crate::tls::Acceptor>>>,
}

enum At {
    Known(Arc<Door>),
    New(Acceptor),
}

impl World {
    /// The hostgroups that a session may begin in.
    pub(crate) fn needed(&self) -> BTreeSet<HostgroupId> {
        let listeners = self.config.listeners.iter().filter_map(|listener| listener.hostgroup);
        let users = self.config.users.iter().map(|user| user.hostgroup);
        users.chain(listeners).map(HostgroupId).collect()
    }
}

impl Plan {
    /// Makes everything that `config` needs and that there is not yet: sockets, keys, certificates.
    pub(super) async fn make(
        live: &Live,
        config: Config,
        before: Option<&World>,
        inherited: &mut Inherited,
    ) -> Result<Self, StartError> {
        let known = |server: &config::Server| {
            let same = |(one, _): &(&config::Server, &Arc<Server>)| fleet::is_same(one, server);
            let known = before?.config.servers.iter().zip(&before?.servers).find(same);
            known.map(|(_, made)| made.clone())
        };
        let made = config
            .servers
            .iter()
            .map(|server| known(server).unwrap_or_else(|| fleet::server(server, live.server_id())));
        let servers: Vec<_> = made.collect();
        let in_use = live.backends.fleet();
        let departures = fleet::departures(&in_use, &servers);
        let topology = fleet::topology(&config, &servers).after_departures(departures);
        let health = Health::new(&config, &servers, &in_use.health);
        let mut plan = Self {
            topology: Arc::new(topology),
            health,
            backends: Vec::new(),
            succeeded: Vec::new(),
            leaving: Vec::new(),
            entries: Vec::new(),
            servers,
            config,
        };
        plan.reach_servers(live, &in_use, before.map(|before| &before.config))?;
        plan.listen(before, inherited).await?;
        Ok(plan)
    }

    /// Servers that are spoken to as before stay what they are.
    fn reach_servers(
        &mut self,
        live: &Live,
        in_use: &Fleet,
        before: Option<&Config>,
    ) -> Result<(), StartError> {
        let Config { backend, tcp, .. } = &self.config;
        let settings_stay =
            before.is_some_and(|before| before.backend == *backend && before.tcp == *tcp);
        for (server, made) in self.config.servers.iter().zip(&self.servers) {
            let at = |e| StartError::Tls(server.name.clone(), e);
            let known = in_use.server(made.id);
            let spoken_to = |one: &config::Server| {
                fleet::is_same(one, server) && fleet::is_spoken_to_alike(one, server)
            };
            let stays =
                settings_stay && before.is_some_and(|before| before.servers.iter().any(spoken_to));
            let reached = match known {
                Some(known) if stays => known.clone(),
                Some(known) => {
                    let next = Arc::new(known.succeeded_by(server, backend, tcp).map_err(at)?);
                    self.succeeded.push((known.clone(), next.clone()));
                    next
                }
                None => {
                    let Some(pulse) = self.health.of(made) else { continue };
                    let handles = live.metrics.server(HostgroupId(server.hostgroup), &made.name);
                    let new = Backend::new(made.clone(), server, backend, tcp, handles, pulse);
                    Arc::new(new.map_err(at)?)
                }
            };
            self.backends.push(reached);
        }
        let stays = |backend: &&Arc<Backend>| {
            self.servers.iter().any(|server| server.id == backend.server.id)
        };
        self.leaving = in_use.iter().filter(|backend| !stays(backend)).cloned().collect();
        Ok(())
    }

    /// Listeners whose address is there stay bound.
    async fn listen(
        &mut self,
        before: Option<&World>,
        inherited: &mut Inherited,
    ) -> Result<(), StartError> {
        let doors = before.map(|before| &before.doors[..]).unwrap_or_default();
        let listeners = before.map(|before| &before.config.listeners[..]).unwrap_or_default();
        let mut left: Vec<_> = doors.iter().zip(listeners).collect();
        for listener in &self.config.listeners {
            let known = left.iter().position(|(door, _)| door.address == listener.address);
            let known = known.map(|at| left.remove(at));
            let own = known.filter(|(_, before)| before.tls == listener.tls);
            let tls = match own {
                Some((door, _)) => door.context.load().entrance.tls.clone(),
                None => {
                    let at = |e| StartError::Tls(listener.address.to_string(), e);
                    renewal::listener(listener).map_err(at)?
                }
            };
            let at = match known {
                Some((door, _)) => At::Known(door.clone()),
                None => {
                    let at = |e| StartError::Bind(listener.address.to_string(), e);
                    At::New(listen::bind(&listener.address, inherited).await.map_err(at)?)
                }
            };
            self.entries.push(Entry { at, tls });
        }
        Ok(())
    }

    /// Puts it into use.
    pub(super) fn put_into_use(self, live: &Live, before: Option<&World>) {
        let Self { mut config, servers, topology, health, backends, entries, .. } = self;
        for (server, made) in config.servers.iter().zip(&servers) {
            made.set_weight(server.weight);
        }
        for backend in &backends {
            if let Some((pulse, _)) = health.of(&backend.server) {
                backend.pulse().follow(&pulse);
            }
        }
        for (older, newer) in &self.succeeded {
            newer.takes_over_from(older);
        }
        self.leaving.iter().for_each(|backend| backend.retire());
        let in_use = live.backends.fleet();
        let leaving = in_use.leaving.iter().cloned().chain(self.leaving).collect();
        live.backends.replace(Fleet::new(backends, leaving, health.clone(), topology.clone()));
        health.begin(&in_use.health);

        for (name, chain) in &mut config.chains {
            if let Some(older) = before.and_then(|before| before.config.chains.get(name)) {
                *chain = chain.clone().in_place_of(older);
            }
        }
        live.settings.store(Arc::new(config.backend.clone()));
        let noted = live.digests.is_some() || live.events.is_some();
        live.tells_statement.store(noted || !config.log.slow_queries.is_zero(), Relaxed);
        if let Some(before) = before {
            live.obey(&before.config.limits, &config.limits);
        }
        let same = before.filter(|it| it.config.log.slow_queries == config.log.slow_queries);
        let slow = match same {
            Some(same) => same.slow.clone(),
            None => SlowLog::of(config.log.slow_queries).map(Arc::new),
        };
        let users = Users::new(&config.users, before.map(|before| &*before.users));
        let mut world = World { config, servers, users: Arc::new(users), doors: Vec::new(), slow };
        let make = Making { live, world: &world, topology };
        let doors = make.doors(entries);
        make.those_parted();
        world.doors = doors;
        live.turn_to(world);
        if before.is_some() {
            live.renew_certificates(true);
        }
    }
}

/// What listeners' contexts are made of.
struct Making<'a> {
    live: &'a Live,
    world: &'a World,
    topology: Arc<Topology>,
}

impl Making<'_> {
    fn doors(&self, entries: Vec<Entry>) -> Vec<Arc<Door>> {
        let model = Arc::new(Model::new(&self.live.backends, &self.world.config.users));
        let mut doors = Vec::new();
        for (listener, Entry { at, tls }) in self.world.config.listeners.iter().zip(entries) {
            // The configuration has been checked: the chain is there.
            let Some(chain) = self.world.config.chains.get(&listener.chain) else { continue };
            let (local, port) = match &at {
                At::Known(door) => (door.local.clone(), door.port),
                At::New(acceptor) => (acceptor.local(), acceptor.port()),
            };
            let entrance = self.entrance(listener, tls, &model, local.into(), port);
            let tcp = self.world.config.tcp.clone();
            doors.push(match at {
                At::Known(door) => {
                    let shared = self.shared(chain, Some(&door));
                    door.context.store(Arc::new(self.context(entrance, shared)));
                    door.tcp.store(Arc::new(tcp));
                    door
                }
                At::New(acceptor) => {
                    let context = self.context(entrance, self.shared(chain, None));
                    Arc::new(Door::new(listener.address.clone(), acceptor, tcp, context))
                }
            });
        }
        doors
    }

    /// Sessions whose listener is closed follow too, in the chain that they are in.
    fn those_parted(&self) {
        let before = self.live.world();
        let before = before.iter().flat_map(|before| before.doors.clone());
        let is_listed = |door: &Arc<Door>| {
            self.world.config.listeners.iter().any(|one| one.address == door.address)
        };
        let parting: Vec<_> = before.filter(|door| !is_listed(door)).collect();
        for door in self.live.parted().iter().chain(&parting) {
            let context = door.context.load_full();
            let entrance =
                Entrance { users: self.world.users.clone(), ..(*context.entrance).clone() };
            let shared = context.shared.clone();
            door.context.store(Arc::new(self.context(entrance, shared)));
        }
    }

    /// What sessions of this chain share; the same as before where they stay in it.
    fn shared(&self, chain: &Chain, door: Option<&Arc<Door>>) -> Arc<Shared> {
        let before = door.map(|door| door.context.load().shared.clone());
        if let Some(before) = before.filter(|before| before.chain.is(chain)) {
            return before;
        }
        Arc::new(Shared {
            chain: match self.live.times_filters {
                true => chain.clone().timed(),
                false => chain.clone(),
            },
            backends: self.live.backends.clone(),
            settings: self.live.settings.clone(),
            sessions: self.live.common.ids.clone(),
            mirrors: self.live.mirrors.clone(),
            tells_statement: self.live.tells_statement.clone(),
        })
    }

    fn context(&self, entrance: Entrance, shared: Arc<Shared>) -> Context {
        let limits = &self.world.config.limits;
        Context {
            entrance: Arc::new(entrance),
            shared,
            topology: self.topology.clone(),
            metrics: self.live.metrics.clone(),
            max_command: usize::try_from(limits.max_allowed_packet).unwrap_or(usize::MAX),
            max_statements: limits.max_prepared_statements,
            wait_timeout: limits.wait_timeout,
            watchers: Watchers {
                slow: self.world.slow.clone(),
                digests: self.live.digests.clone(),
                events: self.live.events.clone(),
            }
            .some(),
            tracing: self.live.tracing.clone(),
            notes: self.live.notes.clone(),
            draining: self.live.common.draining.clone(),
        }
    }

    /// How clients of a listener come in.
    fn entrance(
        &self,
        listener: &config::Listener,
        tls: Option<Arc<Watched<crate::tls::Acceptor>>>,
        model: &Arc<Model>,
        address: Arc<str>,
        port: u16,
    ) -> Entrance {
        let limits = &self.world.config.limits;
        let hostgroup =
            |login| listener.hostgroup.filter(|_| listener.login == login).map(HostgroupId);
        Entrance {
            greeter: Arc::new(Greeter::new(listener, model.clone())),
            users: self.world.users.clone(),
            relay: hostgroup(LoginBy::Server).map(|hostgroup| Relay { hostgroup }),
            untouched: hostgroup(LoginBy::Untouched),
            proxied: listener.proxy_protocol.clone(),
            key: self.live.key.clone(),
            tls,
            tls_required: listener.tls.mode == ListenerTlsMode::Require,
            certificate_required: listener.tls.client_certificate == ClientCertificate::Required,
            max_packet: usize::try_from(limits.max_login_packet).unwrap_or(usize::MAX),
            address,
            port,
            timeout: limits.login_timeout,
        }
    }
}
