//! `sardonyx token`: a secret for somebody, and the line that lets it in.

use std::io::{self, Write};

use clap::Args;
use sardonyx::http::{Role, Token as Secret};
use serde_json::json;

use super::Failure;

/// Make a token for the HTTP API.
#[derive(Args)]
#[command(after_help = "\
The token goes to whoever is to have it, and is shown only once. The line goes into the file that
`sardonyx start --http-tokens FILE` reads; nobody can compute the token from it.

Example:
  sardonyx token --role submit --json")]
pub(crate) struct Token {
    /// What its holder may do: read, submit (and kill), or admin (everything).
    #[arg(long, value_name = "ROLE", default_value = "read", value_parser = Role::named)]
    role: Role,

    /// Print one line of JSON.
    #[arg(long)]
    json: bool,
}

impl Token {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let token = Secret::fresh().map_err(Failure::world)?;
        let (secret, line) = (token.reveal(), token.line(self.role));
        let mut out = io::stdout().lock();
        match self.json {
            true => writeln!(out, "{}", json!({"token": secret, "line": line}))?,
            false => writeln!(out, "token: {secret}\nline:  {line}")?,
        }
        Ok(())
    }
}
