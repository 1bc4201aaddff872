//! What a GPU can give at most, from what its driver says of it.

use crate::device::cuda::Gpu;

/// As far as its limits need it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Device {
    pub(super) name: String,
    major: u32,
    minor: u32,
    pub(super) multiprocessors: f64,
    clock_khz: f64,
    bytes_per_s: f64,
}

impl From<&Gpu> for Device {
    fn from(gpu: &Gpu) -> Self {
        Self {
            name: gpu.name.clone(),
            major: gpu.capability.0,
            minor: gpu.capability.1,
            multiprocessors: f64::from(gpu.sms),
            clock_khz: gpu.sm_clock_khz,
            bytes_per_s: gpu.bandwidth(),
        }
    }
}

/// Limits as plain numbers, each for one second.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct GpuPeaks {
    pub(super) bytes: f64,
    /// Outside of tensor cores, in single precision.
    pub(super) fp32: Option<f64>,
    /// In the lowest precision that the contract allows.
    pub(super) products: Option<f64>,
}

/// The lowest multiply precision of a contract, as far as tensor cores tell them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Multiply {
    Plain,
    Tf32,
    Half,
    Eighth,
}

impl Device {
    /// At the highest clocks, which a GPU under load may not hold: the floor is then too low, never too high.
    pub(super) fn peaks(&self, multiply: Multiply) -> Option<GpuPeaks> {
        let bytes = self.bytes_per_s;
        let ticks = self.multiprocessors * self.clock_khz * 1e3;
        let fp32 = lanes(self.major, self.minor).map(|lanes| 2.0 * lanes * ticks);
        let products = match multiply {
            Multiply::Plain => fp32,
            other => tensor(self.major, self.minor, other).map(|operations| operations * ticks).or(fp32),
        };
        let sound = bytes.is_finite() && bytes > 1e9 && ticks.is_finite();
        sound.then_some(GpuPeaks {
            bytes,
            fp32: fp32.filter(|_| ticks > 0.0),
            products: products.filter(|_| ticks > 0.0),
        })
    }
}

/// Single-precision units of a multiprocessor.
fn lanes(major: u32, minor: u32) -> Option<f64> {
    match (major, minor) {
        (7, _) | (8, 0) => Some(64.0),
        (8..=12, _) => Some(128.0),
        _ => None,
    }
}

/// Dense operations of a multiprocessor's tensor cores in one tick, two for each multiply-add.
fn tensor(major: u32, minor: u32, multiply: Multiply) -> Option<f64> {
    let half = match (major, minor) {
        (7 | 12, _) | (8, 6 | 7 | 9) => 1024.0,
        (8, 0) => 2048.0,
        (9, _) => 4096.0,
        (10 | 11, _) => 8192.0,
        _ => return None,
    };
    match multiply {
        Multiply::Plain => None,
        Multiply::Tf32 if major < 8 => None,
        Multiply::Tf32 => Some(half / 2.0),
        Multiply::Half => Some(half),
        Multiply::Eighth if major < 9 && (major, minor) != (8, 9) => Some(half),
        Multiply::Eighth => Some(2.0 * half),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn h200() -> Device {
        let gpu: Gpu = serde_json::from_str(
            r#"{"name": "NVIDIA H200", "capability": [9, 0], "memory_bytes": 150109880320, "cuda": "13.0",
                "memory_clock_khz": 3201000, "bus_width_bits": 6144, "l2_bytes": 62914560, "sm_clock_khz": 1980000,
                "sms": 132, "flush_bytes": 1, "places": 16, "staged": "", "compulsory_bytes": 1.0, "compulsory_note": ""}"#,
        )
        .unwrap();
        Device::from(&gpu)
    }

    #[test]
    fn a_known_chip_has_its_data_sheet_figures() {
        let peaks = h200().peaks(Multiply::Half).unwrap();
        assert!((peaks.bytes / 1e12 - 4.9).abs() < 0.1, "{peaks:?}");
        assert!((peaks.fp32.unwrap() / 1e12 - 67.0).abs() < 1.0, "{peaks:?}");
        // 989 at the boost clock of the data sheet.
        assert!((989.0..1100.0).contains(&(peaks.products.unwrap() / 1e12)), "{peaks:?}");
        assert_eq!(h200().peaks(Multiply::Plain).unwrap().products, peaks.fp32);
    }

    #[test]
    fn what_is_not_known_is_not_made_up() {
        assert_eq!(Device::default().peaks(Multiply::Half), None);
        let newer = Device { major: 42, ..h200() };
        assert_eq!(newer.peaks(Multiply::Half).unwrap().products, None);
    }
}
