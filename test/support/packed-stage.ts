import type {
  DeviceQueue,
  DeviceQueueOptions,
  DriverQueue,
  DriverQueueOptions,
  Host,
} from '../../src/index.js';
import type { Load } from './engines.js';
import { PackedRing } from './packed-ring.js';
import type { RingAreas } from './split-ring.js';
import { DATA, GUEST, TABLES } from './stage.js';

const FILLER = 0xa5;
const ARENA = 0x200000;

export interface PackedStageOptions {
  size?: number;
  features?: number[];
  memory?: WebAssembly.Memory;
  /** Options of the device queue under test. */
  device?: Partial<DeviceQueueOptions>;
}

/**
 * A packed ring in memory that vring did not make, and one side of it. The other side is played by hand,
 * through `ring`. Every byte that nobody may write is watched.
 */
export class PackedStage {
  readonly ring: PackedRing;
  readonly areas: RingAreas;

  private constructor(
    readonly memory: WebAssembly.Memory,
    readonly host: Host,
    readonly size: number,
    readonly features: number[],
  ) {
    const areas = { descriptor: 0x400, driver: 0, device: 0 };
    areas.driver = areas.descriptor + 16 * size + 0x44;
    areas.device = areas.driver + 0x44;
    if (areas.device + 0x40 > TABLES.address) throw new Error('the ring is too large');
    this.areas = areas;
    this.ring = new PackedRing(memory, areas, size);
  }

  static async create(
    load: Load,
    { size = 8, features = [], memory }: PackedStageOptions = {},
  ): Promise<PackedStage> {
    const own = memory ?? new WebAssembly.Memory({ initial: (GUEST + ARENA) / 65536 });
    const host = await load({ memory: own, base: GUEST, size: ARENA });
    const stage = new PackedStage(own, host, size, features);
    stage.u8.fill(FILLER, 0, GUEST);
    for (const [start, end] of stage.owned) stage.u8.fill(0, start, end);
    return stage;
  }

  get u8(): Uint8Array {
    return new Uint8Array(this.memory.buffer);
  }

  /** Ranges that somebody may write to. */
  private get owned(): [number, number][] {
    const { areas, size } = this;
    return [
      [areas.descriptor, areas.descriptor + 16 * size],
      [areas.driver, areas.driver + 4],
      [areas.device, areas.device + 4],
      [TABLES.address, TABLES.address + TABLES.length],
      [DATA.address, DATA.address + DATA.length],
    ];
  }

  driver(options: Partial<DriverQueueOptions> = {}): DriverQueue {
    const { size, features, areas } = this;
    return this.host.driverQueue({
      ring: 'packed',
      size,
      features,
      areas,
      indirect: { memory: TABLES },
      ...options,
    });
  }

  /** A device that may touch the tables and the data, and the ring. */
  device(options: Partial<DeviceQueueOptions> = {}): DeviceQueue {
    const { size, features, areas } = this;
    return this.host.deviceQueue({
      ring: 'packed',
      size,
      features,
      areas,
      regions: [
        { guest: 0, length: TABLES.address + TABLES.length, local: 0 },
        { guest: DATA.address, length: DATA.length, local: DATA.address },
      ],
      ...options,
    });
  }

  /** Both sides of the ring by hand are at its start, and nothing is in it. */
  clear(): void {
    const { ring, areas, size } = this;
    this.u8.fill(0, areas.descriptor, areas.descriptor + 16 * size);
    this.u8.fill(0, areas.driver, areas.driver + 4);
    this.u8.fill(0, areas.device, areas.device + 4);
    ring.available = ring.used = 0x8000;
  }

  /** Throws if a byte was written that belongs to nobody. */
  check(): void {
    let from = 0;
    const { u8 } = this;
    for (const [start, end] of [...this.owned, [GUEST, GUEST] as const]) {
      const at = u8.subarray(from, start).findIndex((byte) => byte !== FILLER);
      if (at >= 0) throw new Error(`byte ${from + at} was written, and belongs to nobody`);
      from = end;
    }
  }
}
