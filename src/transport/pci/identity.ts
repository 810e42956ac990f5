import { VringError } from '../../errors.js';
import { type PciFunction, readPlace } from './function.js';

const VENDOR_VIRTIO = 0x1af4;
const MODERN_FIRST = 0x1040;
const MODERN_LAST = 0x107f;

/** Virtio device IDs (chapter 5) of the transitional PCI device IDs (virtio 1.4, 4.1.2.1). */
const TRANSITIONAL: ReadonlyMap<number, number> = new Map([
  [0x1000, 1],
  [0x1001, 2],
  [0x1002, 5],
  [0x1003, 3],
  [0x1004, 8],
  [0x1005, 4],
  [0x1009, 9],
]);

/** The virtio device ID of a function (4.1.2). @throws VringError ENOTSUP if it is no virtio device, EIO */
export async function readDeviceId(pci: PciFunction): Promise<number> {
  const vendor = await readPlace(pci, { offset: 0, width: 2 });
  const device = await readPlace(pci, { offset: 2, width: 2 });
  const modern = device >= MODERN_FIRST && device <= MODERN_LAST;
  const id = modern ? device - MODERN_FIRST : TRANSITIONAL.get(device);
  if (vendor !== VENDOR_VIRTIO || id === undefined)
    throw new VringError(
      'ENOTSUP',
      `PCI function ${vendor.toString(16)}:${device.toString(16)} is no virtio device: those are 1af4:1040 to 1af4:107f, and some below`,
    );
  return id;
}
