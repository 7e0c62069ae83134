//! COM_CHANGE_USER: a login on a connection that has one.

use super::CommandCode;
use crate::{
    Attributes, Capabilities,
    auth::{Plugin, Secret},
    put,
    read::{DecodeError, Reader},
};
use bytes::{BufMut, BytesMut};

/// COM_CHANGE_USER. The server goes on as after a login: OK, ERR, auth switch or more data.
///
/// Source: MySQL Internals, "COM_CHANGE_USER".
#[derive(Clone, PartialEq, Eq)]
pub struct ChangeUser {
    /// The account's user name.
    pub user: Vec<u8>,
    /// The first answer of the authentication plugin, at most 255 bytes.
    pub auth_response: Secret,
    /// The default schema; empty for none.
    pub schema: Vec<u8>,
    /// Collation id; 0 where the packet has none.
    pub collation: u16,
    /// The plugin that made `auth_response`; `None` without [`Capabilities::PLUGIN_AUTH`].
    pub plugin: Option<Plugin>,
    /// Connection attributes.
    pub attributes: Attributes,
}

impl ChangeUser {
    /// Decodes a payload, its command byte included. What follows the schema may be missing.
    ///
    /// # Errors
    ///
    /// Another command, or a length beyond the payload.
    pub fn decode(payload: &[u8], caps: Capabilities) -> Result<Self, DecodeError> {
        let mut r = Reader::new(payload);
        if r.u8("command")? != CommandCode::CHANGE_USER.0 {
            return Err(DecodeError::Invalid("command"));
        }
        let user = r.until_nul().to_vec();
        let response = if caps.contains(Capabilities::SECURE_CONNECTION) {
            let len = r.u8("auth response")?;
            r.bytes(len.into(), "auth response")?
        } else {
            r.until_nul()
        };
        let schema = r.until_nul().to_vec();
        let collation = if r.len() >= 2 { r.u16("collation")? } else { 0 };
        let plugin = (caps.contains(Capabilities::PLUGIN_AUTH) && !r.is_empty())
            .then(|| Plugin::from_name(r.until_nul()));
        let mut attributes = Attributes::default();
        if caps.contains(Capabilities::CONNECT_ATTRS) && !r.is_empty() {
            attributes = Attributes::decode(&mut r)?;
        }
        let auth_response = Secret::from(response);
        Ok(Self { user, auth_response, schema, collation, plugin, attributes })
    }

    /// Appends the payload, command byte included.
    pub fn encode(&self, out: &mut BytesMut, caps: Capabilities) {
        out.put_u8(CommandCode::CHANGE_USER.0);
        put::nul_string(out, &self.user);
        let response = self.auth_response.expose();
        if caps.contains(Capabilities::SECURE_CONNECTION) {
            let len = u8::try_from(response.len()).unwrap_or(u8::MAX);
            out.put_u8(len);
            out.put_slice(&response[..len.into()]);
        } else {
            put::nul_string(out, response);
        }
        put::nul_string(out, &self.schema);
        out.put_u16_le(self.collation);
        if caps.contains(Capabilities::PLUGIN_AUTH) {
            // What follows cannot be told from a plugin's name where there is none.
            let Some(plugin) = &self.plugin else { return };
            put::nul_string(out, plugin.name().as_bytes());
        }
        if caps.contains(Capabilities::CONNECT_ATTRS) {
            self.attributes.encode(out);
        }
    }
}

/// Without the auth response.
impl std::fmt::Debug for ChangeUser {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChangeUser")
            .field("user", &self.user.escape_ascii().to_string())
            .field("schema", &self.schema.escape_ascii().to_string())
            .field("collation", &self.collation)
            .field("plugin", &self.plugin)
            .finish_non_exhaustive()
    }
}
