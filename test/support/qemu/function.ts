import type { AccessWidth, PciFunction } from '../../../src/index.js';
import type { Qtest } from './qtest.js';

const ADDRESS_PORT = 0xcf8;
const DATA_PORT = 0xcfc;
const COMMAND = 0x04;
/** Responds in I/O and memory space, and may be bus master. */
const ENABLED = 0x7;
const BAR0 = 0x10;

/** Free places in the address spaces of a machine of type q35 that has little memory. */
const MEMORY_WINDOW = 0xe000_0000;
const IO_WINDOW = 0xc000;

interface Bar {
  io: boolean;
  address: number;
}

/** A PCI function of a machine that runs without firmware: its BARs are given addresses here. */
export class QtestFunction implements PciFunction {
  private readonly bars: (Bar | undefined)[] = [];

  private constructor(
    private readonly qtest: Qtest,
    private readonly slot: number,
  ) {}

  /** @param slot number of the device on bus 0, not used by another call with the same machine */
  static async enable(qtest: Qtest, slot: number): Promise<QtestFunction> {
    const pci = new QtestFunction(qtest, slot);
    let memory = MEMORY_WINDOW + slot * 0x100_0000;
    let io = IO_WINDOW + slot * 0x100;
    for (let bar = 0; bar < 6; bar++) {
      const at = BAR0 + 4 * bar;
      await pci.writeConfig(at, 4, 0xffffffff);
      const mask = await pci.readConfig(at, 4);
      if (mask === 0) continue;
      const isIo = (mask & 1) !== 0;
      const size = 2 ** 32 - ((mask & (isIo ? ~3 : ~15)) >>> 0);
      const address = Math.ceil((isIo ? io : memory) / size) * size;
      if (isIo) io = address + size;
      else memory = address + size;
      pci.bars[bar] = { io: isIo, address };
      await pci.writeConfig(at, 4, address);
      // The upper half of a 64-bit BAR is the next register.
      if (!isIo && (mask & 6) === 4) await pci.writeConfig(BAR0 + 4 * ++bar, 4, 0);
    }
    await pci.writeConfig(COMMAND, 2, ENABLED);
    return pci;
  }

  async readConfig(offset: number, width: AccessWidth): Promise<number> {
    const selected = this.select(offset);
    const value = this.qtest.in(DATA_PORT + (offset & 3), width);
    await selected;
    return value;
  }

  async writeConfig(offset: number, width: AccessWidth, value: number): Promise<void> {
    const selected = this.select(offset);
    const written = this.qtest.out(DATA_PORT + (offset & 3), width, value);
    await selected;
    await written;
  }

  readBar(bar: number, offset: number, width: AccessWidth): Promise<number> {
    const { io, address } = this.bar(bar);
    return io ? this.qtest.in(address + offset, width) : this.qtest.read(address + offset, width);
  }

  writeBar(bar: number, offset: number, width: AccessWidth, value: number): Promise<void> {
    const { io, address } = this.bar(bar);
    return io
      ? this.qtest.out(address + offset, width, value)
      : this.qtest.write(address + offset, width, value);
  }

  private select(offset: number): Promise<void> {
    return this.qtest.out(ADDRESS_PORT, 4, (0x8000_0000 | (this.slot << 11) | (offset & ~3)) >>> 0);
  }

  private bar(index: number): Bar {
    const bar = this.bars[index];
    if (bar === undefined) throw new Error(`the function at slot ${this.slot} has no BAR ${index}`);
    return bar;
  }
}
