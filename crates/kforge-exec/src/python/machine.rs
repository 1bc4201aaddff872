//! What the machine is, read from its files: accelerators, operating system, package manager.

use crate::process::find_program;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The files of a machine and the search path on it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Machine<'a> {
    pub(crate) root: &'a Path,
    pub(crate) path: &'a [PathBuf],
}

impl Machine<'_> {
    /// The text of a file such as `proc/sys/kernel/perf_event_paranoid`; empty where it cannot be read.
    pub(crate) fn read(&self, file: &str) -> String {
        fs::read_to_string(self.root.join(file)).unwrap_or_default().trim().to_owned()
    }

    /// The device files of NVIDIA GPUs.
    pub(crate) fn nvidia(&self) -> Vec<String> {
        let numbered = |name: &str| name.strip_prefix("nvidia").is_some_and(|n| n.parse::<u32>().is_ok());
        let mut found = self.entries("dev");
        // Under WSL there is one file for all GPUs.
        found.retain(|name| numbered(name) || name == "dxg");
        found
    }

    /// Device files of accelerators that a build of torch other than the CPU's can use.
    ///
    /// Render nodes count for NVIDIA and AMD only: nearly every laptop and virtual machine has one, and for the
    /// others the default build is a few gigabytes for nothing.
    pub(crate) fn accelerators(&self) -> Vec<String> {
        let mut found = self.nvidia();
        if self.root.join("dev/kfd").exists() {
            found.push("kfd".to_owned());
        }
        for node in self.entries("dev/dri") {
            let vendor = self.read(&format!("sys/class/drm/{node}/device/vendor"));
            if node.starts_with("renderD") && ["0x10de", "0x1002"].contains(&vendor.as_str()) {
                found.push(format!("dri/{node}"));
            }
        }
        found
    }

    /// Whether the PCI bus has a display device of NVIDIA's, driver or not.
    pub(crate) fn has_nvidia_on_bus(&self) -> bool {
        let file = |device: &str, name: &str| self.read(&format!("sys/bus/pci/devices/{device}/{name}"));
        let devices = self.entries("sys/bus/pci/devices");
        devices.iter().any(|device| file(device, "vendor") == "0x10de" && file(device, "class").starts_with("0x03"))
    }

    fn entries(&self, folder: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.root.join(folder)) else { return Vec::new() };
        let mut names: Vec<String> =
            entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// Whether the distribution is Ubuntu or made from it: some packages have other names there.
    pub(crate) fn is_ubuntu(&self) -> bool {
        self.read("etc/os-release").lines().any(|line| {
            line.strip_prefix("ID=").or_else(|| line.strip_prefix("ID_LIKE=")).is_some_and(|id| id.contains("ubuntu"))
        })
    }

    /// The package manager, where it is one that we know.
    pub(crate) fn package_manager(&self) -> Option<PackageManager> {
        use PackageManager::{Apt, Brew, Dnf, Pacman, Zypper};
        [("apt-get", Apt), ("dnf", Dnf), ("pacman", Pacman), ("zypper", Zypper), ("brew", Brew)]
            .into_iter()
            .find_map(|(program, manager)| find_program(program, self.path).map(|_| manager))
    }

    /// The command that installs what `package` names; `None` where there is no such package or no manager.
    pub(crate) fn install(&self, package: impl Fn(PackageManager) -> Option<&'static str>) -> Option<String> {
        let manager = self.package_manager()?;
        let package = package(manager)?;
        let sudo = manager != PackageManager::Brew && !rustix::process::geteuid().is_root();
        let verb = match manager {
            PackageManager::Apt => "apt-get install -y",
            PackageManager::Dnf => "dnf install -y",
            PackageManager::Pacman => "pacman -S --needed",
            PackageManager::Zypper => "zypper install -y",
            PackageManager::Brew => "brew install",
        };
        Some(format!("{}{verb} {package}", if sudo { "sudo " } else { "" }))
    }
}

/// Bytes that this user may still write where `folder` lies.
pub(crate) fn free_space(folder: &Path) -> io::Result<u64> {
    let space = rustix::fs::statvfs(folder)?;
    Ok(space.f_bavail.saturating_mul(space.f_frsize))
}

/// Package managers whose commands we know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PackageManager {
    Apt,
    Dnf,
    Pacman,
    Zypper,
    Brew,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn render_nodes_count_by_vendor() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for (node, vendor) in [("renderD128", "0x8086"), ("renderD129", "0x1002")] {
            fs::create_dir_all(root.join("dev/dri")).unwrap();
            fs::write(root.join("dev/dri").join(node), "").unwrap();
            let device = root.join("sys/class/drm").join(node).join("device");
            fs::create_dir_all(&device).unwrap();
            fs::write(device.join("vendor"), format!("{vendor}\n")).unwrap();
        }
        let machine = Machine { root, path: &[] };
        assert_eq!(machine.accelerators(), ["dri/renderD129"]);
        fs::write(root.join("dev/nvidia0"), "").unwrap();
        fs::write(root.join("dev/nvidiactl"), "").unwrap();
        assert_eq!(machine.accelerators(), ["nvidia0", "dri/renderD129"]);
    }
}
