import { VringError } from '../../errors.js';
import { type AccessWidth, type PciFunction, readPlace } from './function.js';
import { Structure } from './structure.js';

const STATUS = 0x06;
const STATUS_CAPABILITIES = 0x10;
const POINTER = 0x34;
const FIRST = 0x40;
/** As many as the configuration space has room for: the list of a faulty device may loop. */
const LIMIT = (0x100 - FIRST) / 4;

const VENDOR = 0x09;
const MSIX = 0x11;

/** `cfg_type` of the virtio structures (virtio 1.4, 4.1.4). */
const COMMON_CFG = 1;
const NOTIFY_CFG = 2;
const ISR_CFG = 3;
const DEVICE_CFG = 4;

const CAP_BYTES = 16;
const NOTIFY_CAP_BYTES = 20;
const BAR_MAX = 5;

/** Up to `queue_device`: what every device has of the common configuration. */
const COMMON_BYTES = 56;

/** Where the parts of a virtio device are (4.1.4). */
export interface Layout {
  common: Structure;
  notify: Structure;
  /** `notify_off_multiplier`: bytes from one queue's notification address to the next one's. */
  notifyMultiplier: number;
  isr: Structure;
  /** Device-specific configuration; absent where the device type has none. */
  device: Structure | undefined;
  /** Offset of the MSI-X capability in the configuration space; undefined if there is none. */
  msix: number | undefined;
}

/** The capabilities of a function, as offsets of those with each id, in the order of the list. */
async function listCapabilities(pci: PciFunction): Promise<{ id: number; at: number }[]> {
  const read = (offset: number, width: AccessWidth) => readPlace(pci, { offset, width });
  if (!((await read(STATUS, 2)) & STATUS_CAPABILITIES)) return [];
  const found: { id: number; at: number }[] = [];
  // The two low bits are reserved.
  for (let at = (await read(POINTER, 1)) & ~3; at !== 0; at = (await read(at + 1, 1)) & ~3) {
    if (at < FIRST)
      throw new VringError('EPROTO', `the capability list goes on at 0x${at.toString(16)}, in the header`);
    if (found.length === LIMIT)
      throw new VringError('ELOOP', `the capability list has more than ${LIMIT} entries: it loops`);
    found.push({ id: await read(at, 1), at });
  }
  return found;
}

/**
 * Finds the structures of a virtio device; of each kind the first that can be used.
 * @throws VringError ENOTSUP if one is missing (a legacy device has none), EPROTO, ELOOP, EIO
 */
export async function findLayout(pci: PciFunction): Promise<Layout> {
  const read = (offset: number, width: AccessWidth) => readPlace(pci, { offset, width });
  const found = new Map<number, Structure>();
  let msix: number | undefined;
  let notifyMultiplier = 0;

  const usable = (type: number, offset: number, length: number, capLength: number) => {
    switch (type) {
      case COMMON_CFG:
        return offset % 4 === 0 && length >= COMMON_BYTES;
      case NOTIFY_CFG:
        return offset % 2 === 0 && length >= 2 && capLength >= NOTIFY_CAP_BYTES;
      case ISR_CFG:
        return length >= 1;
      case DEVICE_CFG:
        return offset % 4 === 0 && length >= 1;
      default:
        return false;
    }
  };
  const names: Record<number, string> = {
    [COMMON_CFG]: 'common configuration',
    [NOTIFY_CFG]: 'notification structure',
    [ISR_CFG]: 'ISR status',
    [DEVICE_CFG]: 'device-specific configuration',
  };

  for (const { id, at } of await listCapabilities(pci)) {
    if (id === MSIX) msix ??= at;
    if (id !== VENDOR || at + CAP_BYTES > 0x100) continue;
    const capLength = await read(at + 2, 1);
    const type = await read(at + 3, 1);
    if (capLength < CAP_BYTES || at + capLength > 0x100 || found.has(type)) continue;
    const bar = await read(at + 4, 1);
    const offset = await read(at + 8, 4);
    const length = await read(at + 12, 4);
    if (bar > BAR_MAX || !usable(type, offset, length, capLength)) continue;
    if (type === NOTIFY_CFG) notifyMultiplier = await read(at + CAP_BYTES, 4);
    found.set(type, new Structure(pci, names[type], bar, offset, length));
  }

  const needed = (type: number) => {
    const structure = found.get(type);
    if (structure === undefined)
      throw new VringError(
        'ENOTSUP',
        `the function has no capability for a usable ${names[type]}: it is a legacy device or no virtio device`,
      );
    return structure;
  };
  return {
    common: needed(COMMON_CFG),
    notify: needed(NOTIFY_CFG),
    notifyMultiplier,
    isr: needed(ISR_CFG),
    device: found.get(DEVICE_CFG),
    msix,
  };
}
