import type { AccessWidth } from './function.js';
import type { Structure } from './structure.js';

interface Register {
  readonly at: number;
  readonly width: AccessWidth;
}

/** The fields of the common configuration structure (virtio 1.4, 4.1.4.3). Those of 64 bits are two registers. */
export const COMMON = {
  device_feature_select: { at: 0, width: 4 },
  device_feature: { at: 4, width: 4 },
  driver_feature_select: { at: 8, width: 4 },
  driver_feature: { at: 12, width: 4 },
  config_msix_vector: { at: 16, width: 2 },
  num_queues: { at: 18, width: 2 },
  device_status: { at: 20, width: 1 },
  config_generation: { at: 21, width: 1 },
  queue_select: { at: 22, width: 2 },
  queue_size: { at: 24, width: 2 },
  queue_msix_vector: { at: 26, width: 2 },
  queue_enable: { at: 28, width: 2 },
  queue_notify_off: { at: 30, width: 2 },
  queue_desc: { at: 32, width: 4 },
  queue_driver: { at: 40, width: 4 },
  queue_device: { at: 48, width: 4 },
  queue_notif_config_data: { at: 56, width: 2 },
  queue_reset: { at: 58, width: 2 },
} as const satisfies Record<string, Register>;

export type CommonField = keyof typeof COMMON;

/**
 * The common configuration of a device. Several fields show what another one selects: whoever selects does so
 * in `alone`, or a caller that runs beside it selects something else in between.
 */
export class CommonConfig {
  private last: Promise<unknown> = Promise.resolve();

  constructor(private readonly structure: Structure) {}

  read(field: CommonField): Promise<number> {
    const { at, width } = COMMON[field];
    return this.structure.read(at, width);
  }

  write(field: CommonField, value: number): Promise<void> {
    const { at, width } = COMMON[field];
    return this.structure.write(at, width, value);
  }

  /** Writes a 64-bit field, low half first. @param value 0 … 2^64-1 */
  async write64(field: 'queue_desc' | 'queue_driver' | 'queue_device', value: bigint): Promise<void> {
    const { at, width } = COMMON[field];
    await this.structure.write(at, width, Number(value & 0xffffffffn));
    await this.structure.write(at + width, width, Number(value >> 32n));
  }

  /** Runs `act` when all that was passed before has ended. Not to be nested. */
  alone<T>(act: () => Promise<T>): Promise<T> {
    const run = this.last.then(act);
    this.last = run.catch(() => undefined);
    return run;
  }

  /** Runs `act` with a queue selected. */
  withQueue<T>(index: number, act: () => Promise<T>): Promise<T> {
    return this.alone(async () => {
      await this.write('queue_select', index);
      return act();
    });
  }
}
