import { show, VringError } from '../../errors.js';

/** AccessWidth of an access in bytes. */
export type AccessWidth = 1 | 2 | 4;

/**
 * One PCI function, in the hands of whoever found it on its bus: the BARs have their addresses, and memory
 * space, I/O space and bus mastering are enabled in its command register.
 *
 * Values are unsigned and little-endian on the bus. Accesses are aligned to their width and take effect in the
 * order of the calls, also where one is made before the promise of the one before it has settled.
 */
export interface PciFunction {
  /** Reads the configuration space. @param offset 0 … 255 */
  readConfig(offset: number, width: AccessWidth): number | Promise<number>;
  writeConfig(offset: number, width: AccessWidth, value: number): void | Promise<void>;
  /** Reads what a BAR maps. @param bar 0 … 5 @param offset in bytes from the start of the BAR */
  readBar(bar: number, offset: number, width: AccessWidth): number | Promise<number>;
  writeBar(bar: number, offset: number, width: AccessWidth, value: number): void | Promise<void>;
}

/** A place in a function's registers: `bar` is undefined in the configuration space. */
interface Place {
  bar?: number;
  offset: number;
  width: AccessWidth;
}

const describe = ({ bar, offset, width }: Place) =>
  `${width} bytes at 0x${offset.toString(16)} of ${bar === undefined ? 'the configuration space' : `BAR ${bar}`}`;

/** Reads a register. @throws VringError EIO if the function fails, or gives what is no value of that width */
export async function readPlace(pci: PciFunction, place: Place): Promise<number> {
  const { bar, offset, width } = place;
  let value: number;
  try {
    value = await (bar === undefined ? pci.readConfig(offset, width) : pci.readBar(bar, offset, width));
  } catch (cause) {
    throw new VringError('EIO', `cannot read ${describe(place)}: ${String(cause)}`, { cause });
  }
  if (!Number.isInteger(value) || value < 0 || value >= 2 ** (8 * width))
    throw new VringError('EIO', `reading ${describe(place)} gave ${show(value)}: the function is faulty`);
  return value;
}

/** Writes a register. @throws VringError EINVAL for a value that does not fit, EIO if the function fails */
export async function writePlace(pci: PciFunction, place: Place, value: number): Promise<void> {
  const { bar, offset, width } = place;
  if (!Number.isInteger(value) || value < 0 || value >= 2 ** (8 * width))
    throw new VringError('EINVAL', `${show(value)} cannot be written to ${describe(place)}: it does not fit`);
  try {
    await (bar === undefined
      ? pci.writeConfig(offset, width, value)
      : pci.writeBar(bar, offset, width, value));
  } catch (cause) {
    throw new VringError('EIO', `cannot write ${describe(place)}: ${String(cause)}`, { cause });
  }
}
