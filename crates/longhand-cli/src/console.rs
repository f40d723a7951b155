//! `longhand console`: an archive in the browser, without a proxy.

use std::io::{IsTerminal, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use longhand::app::App;
use longhand_server::{ConsoleSettings, serve_console};
use tempfile::NamedTempFile;
use tokio::runtime::Builder;

use crate::args::{ArchiveArgs, ConsoleArgs, ProxyConsoleArgs};
use crate::config::Config;
use crate::{CommandOutcome, models, output, store};

pub(crate) fn run(args: &ConsoleArgs) -> Result<CommandOutcome> {
    store::check_exists(&args.archive)?;
    let archive = store::open(&args.archive)?;
    let app = App::new(archive.clone());
    let session = args.session.as_deref().map(|name| store::readable(&app, name)).transpose()?;
    let place = session.map(|session| format!("/session/{}", session.id));
    let settings = settings(args.read_only, &args.archive, &Config::load()?)?;
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, args.port));
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.context("cannot start the network threads")?;
    runtime.block_on(async {
        let console = serve_console(archive, settings, listen).await?;
        let link = console.link(place.as_deref())?;
        output::print(&format!("console {link}"))?;
        output::say("the link works once; Ctrl-C ends the console");
        let opened = if args.no_open { None } else { open_browser(&link) };
        crate::serve::stop_asked_for().await;
        drop(opened);
        console.stop().await;
        anyhow::Ok(())
    })?;
    runtime.shutdown_background();
    Ok(CommandOutcome::Done)
}

/// The console of a proxy, unless it is to have none.
pub(crate) fn of_proxy(
    args: ProxyConsoleArgs,
    archive: &ArchiveArgs,
    config: &Config,
) -> Result<Option<ConsoleSettings>> {
    if args.no_console {
        return Ok(None);
    }
    settings(args.console_read_only, archive, config).map(Some)
}

fn settings(is_read_only: bool, archive: &ArchiveArgs, config: &Config) -> Result<ConsoleSettings> {
    let archive_name = Some(store::shown(&store::path(archive)?));
    Ok(ConsoleSettings { is_read_only, archive_name, prices: models::prices(config) })
}

/// Opens a link in a browser, if a person sits here and there is one. Returns what must stay until the end.
pub(crate) fn open_browser(link: &str) -> Option<NamedTempFile> {
    if !std::io::stdout().is_terminal() {
        return None;
    }
    // Other users can read the arguments of a program, so the link is in a file that they cannot read.
    let page = page(link).ok()?;
    let opener = opener()?;
    let mut command = Command::new(opener);
    command.arg(page.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let Ok(mut child) = command.spawn() else {
        output::say(&format!("no browser was started: open the link ({opener} does not start)"));
        return None;
    };
    // It ends soon; whoever waits for it is no longer than that.
    std::thread::spawn(move || child.wait());
    Some(page)
}

/// A page that leads to the link, which the user alone can read.
fn page(link: &str) -> std::io::Result<NamedTempFile> {
    let mut file =
        tempfile::Builder::new().prefix("longhand-console-").suffix(".html").tempfile()?;
    let link = link.replace('&', "&amp;");
    write!(
        file,
        "<!doctype html>\n<meta charset=\"utf-8\">\n<meta name=\"referrer\" content=\"no-referrer\">\n\
         <meta http-equiv=\"refresh\" content=\"0;url={link}\">\n<title>Longhand</title>\n\
         <p><a href=\"{link}\">The console of Longhand</a>\n"
    )?;
    file.flush()?;
    Ok(file)
}

/// The program that opens a file as the desktop is set up; `None` without a desktop.
fn opener() -> Option<&'static str> {
    if cfg!(target_os = "macos") {
        return Some("open");
    }
    if cfg!(windows) {
        return Some("explorer");
    }
    let has = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_there = |name: &str| {
        let folders = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&folders).any(|folder| Path::new(&folder).join(name).is_file())
    };
    (has("DISPLAY") || has("WAYLAND_DISPLAY")).then_some("xdg-open").filter(|name| is_there(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_link_is_in_a_file_that_only_the_user_reads() {
        let link = "http://127.0.0.1:4141/longhand/console/#token=abc&to=/session/1";
        let page = page(link).unwrap();
        let text = std::fs::read_to_string(page.path()).unwrap();
        assert!(
            text.contains(
                "url=http://127.0.0.1:4141/longhand/console/#token=abc&amp;to=/session/1"
            )
        );
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = page.as_file().metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o077, 0, "{mode:o}");
        }
    }
}
