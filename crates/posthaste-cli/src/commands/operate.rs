//! Opens the log for the operator's commands and says who acts.

use posthaste::Admin;

use crate::cli::GlobalOptions;
use crate::cli::dead::DeadCommand;
use crate::cli::operate::Operate;
use crate::context::Context;
use crate::failure::Failure;

use super::{completions, dead, events, keys, replay, retain, status, subscriptions, why};

pub(crate) async fn run(command: Operate, global: &GlobalOptions) -> Result<(), Failure> {
    if let Operate::Completions(options) = &command {
        return completions::run(options);
    }
    // The log may be away when letters are looked at: it is opened only to send one again.
    if let Operate::Dead(DeadCommand::Letters(options)) = &command {
        return dead::letters::run(global, options).await;
    }
    let context = Context::open(global).await?;
    match command {
        Operate::Status(options) => status::run(&context, options).await,
        Operate::Subscriptions(command) => subscriptions::run(&context, command).await,
        Operate::Events(command) => events::run(&context, command).await,
        Operate::Dead(command) => dead::run(&context, command).await,
        Operate::Keys(command) => keys::run(&context, command).await,
        Operate::Replay(options) => replay::run(&context, &options).await,
        Operate::Why(options) => why::run(&context, &options).await,
        Operate::Retain(options) => retain::run(&context, &options).await,
        Operate::Completions(_) => Ok(()),
    }
}

impl Context {
    /// What people may ask and do, under the name of whoever is logged in.
    pub(crate) fn admin(&self) -> Admin {
        let user = ["USER", "LOGNAME", "USERNAME"].iter().find_map(|name| std::env::var(name).ok());
        let who = user.filter(|user| !user.is_empty()).unwrap_or_else(|| "somebody".to_owned());
        self.posthaste.admin().acting_as(format!("{who} (command line)"))
    }
}
