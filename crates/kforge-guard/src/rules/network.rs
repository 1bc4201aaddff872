//! Refuses to talk to other machines.
//!
//! ## What it does
//! Looks for imports of network modules, for `torch.hub` and `torch.distributed` set-up, `asyncio` connections and servers,
//! and for commands that install or download something.
//!
//! ## Why is this bad?
//! A kernel that needs the network is not in the file that is judged, and the sandbox has no network anyway.
//!
//! ## Example
//! ```python
//! from urllib.request import urlopen
//! ```
//! Use instead: write the kernel's source into the file.

use crate::ast::Node;
use crate::context::{Context, Sink};
use crate::resolve::within;

const MODULES: &[&str] = &[
    "aiohttp",
    "ensurepip",
    "ftplib",
    "http",
    "httpx",
    "huggingface_hub",
    "imaplib",
    "nntplib",
    "paramiko",
    "pip",
    "poplib",
    "requests",
    "smtplib",
    "socket",
    "socketserver",
    "ssl",
    "telnetlib",
    "urllib",
    "urllib3",
    "websocket",
    "websockets",
    "xmlrpc",
    "zmq",
];
const FUNCTIONS: &[&str] = &[
    "asyncio.open_connection",
    "asyncio.open_unix_connection",
    "asyncio.start_server",
    "asyncio.start_unix_server",
    "torch.distributed.init_process_group",
    "torch.distributed.TCPStore",
    "torch.distributed.rpc.init_rpc",
    "torch.hub.load",
    "torch.hub.load_state_dict_from_url",
    "torch.hub.download_url_to_file",
    "torch.utils.model_zoo.load_url",
];
const DOWNLOADERS: &[&str] = &["pip", "pip3", "curl", "wget", "git", "conda", "apt", "apt-get"];

const ADVICE: &str = "write all that the kernel needs into this file";

pub(crate) fn check(context: &Context<'_>, sink: &mut Sink<'_>) {
    for import in context.imports() {
        let parsing = within(&import.path, "urllib.parse");
        if !parsing && MODULES.iter().any(|module| within(&import.path, module)) {
            sink.at(import.node, format!("`{}` reaches the network; {ADVICE}.", import.path));
        }
    }
    for (node, path) in context.references() {
        // A socket that came in through another module has no import of its own.
        if FUNCTIONS.contains(&path) || path == "socket" || path == "socket.socket" {
            sink.at(node, format!("`{path}` reaches the network; {ADVICE}."));
        }
    }
    for call in context.of_kind("call") {
        let runs = |path: &str| within(path, "subprocess") || ["os.system", "os.popen"].contains(&path);
        if call.field("function").is_some_and(|function| context.names.any(function, runs)) && downloads(context, call)
        {
            sink.at(call, format!("This command installs or downloads something; {ADVICE}."));
        }
    }
}

/// Whether a command names a program that downloads, as a word of its own.
fn downloads(context: &Context<'_>, call: Node<'_>) -> bool {
    let strings = call.field("arguments").into_iter().flat_map(Node::descendants).filter(|node| node.is("string"));
    strings.filter_map(|node| context.names.constant(node)).any(|text| {
        text.split_whitespace().any(|word| DOWNLOADERS.contains(&word.rsplit('/').next().unwrap_or_default()))
    })
}
