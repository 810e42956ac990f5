import type { Arena, LinearMemory } from '../../memory.js';
import type { DeviceRing, DeviceRingConfig, DriverRing, DriverRingConfig, Engine } from '../engine.js';
import { WasmDevice } from './device.js';
import { WasmDriver } from './driver.js';
import type { WasmExports } from './module.js';

/** The WebAssembly engine on one memory. Its control blocks lie in the arena. */
export class WasmEngine implements Engine {
  readonly name = 'wasm';

  constructor(
    private readonly wasm: WasmExports,
    private readonly memory: LinearMemory,
    private readonly arena: Arena,
  ) {}

  driverRing(config: DriverRingConfig): DriverRing {
    return new WasmDriver(this.wasm, this.memory, this.arena, config);
  }

  deviceRing(config: DeviceRingConfig): DeviceRing {
    return new WasmDevice(this.wasm, this.memory, this.arena, config);
  }

  copy(to: number, from: number, length: number): void {
    this.wasm.copyBytes(to, from, length);
  }
}
