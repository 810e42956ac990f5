import { show, VringError } from '../../errors.js';
import { integer } from '../../queue/check.js';
import { type PciFunction, readPlace, writePlace } from './function.js';
import { Structure } from './structure.js';

const CONTROL = 2;
const TABLE = 4;
const SIZE_MASK = 0x7ff;
const ENABLE = 0x8000;
const FUNCTION_MASK = 0x4000;
const ENTRY_BYTES = 16;

/** The MSI-X capability of a function: messages that it writes to memory in place of interrupt lines. */
export class Msix {
  private constructor(
    private readonly pci: PciFunction,
    private readonly at: number,
    private readonly table: Structure,
    /** Entries of the table: 1 … 2048. */
    readonly vectors: number,
  ) {}

  /** @param at offset of the capability in the configuration space @throws VringError EPROTO, EIO */
  static async at(pci: PciFunction, at: number): Promise<Msix> {
    const control = await readPlace(pci, { offset: at + CONTROL, width: 2 });
    const table = await readPlace(pci, { offset: at + TABLE, width: 4 });
    const vectors = (control & SIZE_MASK) + 1;
    const bar = table & 7;
    if (bar > 5)
      throw new VringError(
        'EPROTO',
        `the MSI-X table is in BAR ${bar}, a function has 0 to 5: do without it`,
      );
    // Not `& ~7`: an offset may have bit 31.
    const offset = table - bar;
    return new Msix(pci, at, new Structure(pci, 'MSI-X table', bar, offset, vectors * ENTRY_BYTES), vectors);
  }

  /** Turns MSI-X on, or off. While it is on, the device sends no other interrupts. */
  async enable(on = true): Promise<void> {
    const place = { offset: this.at + CONTROL, width: 2 } as const;
    const control = (await readPlace(this.pci, place)) & ~(ENABLE | FUNCTION_MASK);
    await writePlace(this.pci, place, on ? control | ENABLE : control);
  }

  /**
   * What a vector's interrupt does: the device stores `data` at `address`. Unmasks it.
   * @param address a multiple of 4, below 2^64 @param data 0 … 2^32-1
   * @throws VringError EINVAL, EIO
   */
  async setEntry(vector: number, address: number | bigint, data: number): Promise<void> {
    integer(vector, 'vector', 0, this.vectors - 1);
    integer(data, 'data', 0, 2 ** 32 - 1);
    if (typeof address !== 'bigint') integer(address, 'address', 0, Number.MAX_SAFE_INTEGER);
    const at = BigInt(address);
    if (at < 0n || at >> 64n !== 0n || at % 4n !== 0n)
      throw new VringError('EINVAL', `address must be a multiple of 4 below 2^64, got ${show(address)}`);
    const entry = vector * ENTRY_BYTES;
    const words = [Number(at & 0xffffffffn), Number(at >> 32n), data, 0];
    for (const [index, word] of words.entries()) await this.table.write(entry + 4 * index, 4, word);
  }
}
