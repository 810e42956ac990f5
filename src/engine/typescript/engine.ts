import { VringError } from '../../errors.js';
import type { LinearMemory } from '../../memory.js';
import type { DeviceRing, DeviceRingConfig, DriverRing, DriverRingConfig, Engine } from '../engine.js';
import { PackedDevice } from './packed/device.js';
import { PackedDriver } from './packed/driver.js';
import { SplitDevice } from './split/device.js';
import { SplitDriver } from './split/driver.js';

const littleEndian = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1;

/** Rings in plain TypeScript: runs where WebAssembly is not allowed, and on plain buffers. */
export class TypeScriptEngine implements Engine {
  readonly name = 'typescript';
  private readonly memory: LinearMemory;

  /** @throws VringError ENOTSUP on a big-endian host */
  constructor(memory: LinearMemory) {
    if (!littleEndian)
      throw new VringError(
        'ENOTSUP',
        "rings are little endian and typed arrays of this host are not: pass {engine: 'wasm'}, which is little endian everywhere",
      );
    this.memory = memory;
  }

  driverRing(config: DriverRingConfig): DriverRing {
    return config.ring === 'packed'
      ? new PackedDriver(this.memory, config)
      : new SplitDriver(this.memory, config);
  }

  deviceRing(config: DeviceRingConfig): DeviceRing {
    return config.ring === 'packed'
      ? new PackedDevice(this.memory, config)
      : new SplitDevice(this.memory, config);
  }

  copy(to: number, from: number, length: number): void {
    this.memory.fresh();
    this.memory.u8.copyWithin(to, from, from + length);
  }
}
