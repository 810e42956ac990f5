import { show, VringError } from '../../errors.js';
import { Feature } from '../../features.js';
import type { Negotiation } from '../../negotiation.js';
import { integer } from '../../queue/check.js';
import { type Areas, areaLayout, checkSize } from '../../queue/queue.js';
import type { CommonConfig } from './common-config.js';
import type { Msix } from './msix.js';
import { polled } from './polled.js';
import type { Structure } from './structure.js';

/** `*_msix_vector` of an event that sends no interrupt (virtio 1.4, 4.1.5.1.2). */
export const NO_VECTOR = 0xffff;

/** What the device is told of a virtqueue. */
export interface PciQueueSetup {
  /** Descriptors: at most `sizeMax`, a power of two in a split ring. */
  size: number;
  /** Where the ring lies, as the device addresses it. */
  areas: Areas;
  /** MSI-X vector of its interrupts; none if absent. */
  vector?: number;
}

/** What a driver queue is asked for in a notification with data (2.9). */
export interface NotificationSource {
  notificationData(index: number): number;
}

/** What a queue shares with its device. @internal */
export interface PciQueueHost {
  readonly common: CommonConfig;
  readonly negotiation: Negotiation;
  readonly msix: Msix | undefined;
  readonly notify: Structure;
  readonly polls: number;
}

/** Writes a vector field and sees that the device took it. @throws VringError EINVAL, ENOTSUP, EIO */
export async function setVector(
  { common, msix }: Pick<PciQueueHost, 'common' | 'msix'>,
  field: 'config_msix_vector' | 'queue_msix_vector',
  vector: number | undefined,
): Promise<void> {
  if (vector === undefined) return common.write(field, NO_VECTOR);
  if (msix === undefined)
    throw new VringError('ENOTSUP', `vector ${show(vector)}: the device has no MSI-X, leave it out`);
  await common.write(field, integer(vector, 'vector', 0, msix.vectors - 1));
  const taken = await common.read(field);
  if (taken !== vector)
    throw new VringError(
      'EIO',
      `the device did not map vector ${vector} (${field} reads ${taken}): use fewer vectors`,
    );
}

/** The device's end of one virtqueue: its registers. Made by `PciTransport.queue`. */
export class PciQueue {
  private enabled = false;
  private notifyIndex: number;

  /** @internal */
  constructor(
    private readonly host: PciQueueHost,
    readonly index: number,
    /** Most descriptors that the device takes. */
    readonly sizeMax: number,
    private readonly notifyAt: number,
  ) {
    this.notifyIndex = index;
  }

  /**
   * Tells the device where the ring is and enables the queue (4.1.5.1.3). The ring must be as new.
   * @throws VringError EINVAL for bad arguments, before the features are negotiated, or if the queue is enabled
   *   already; ENOTSUP if there is no MSI-X; EIO if the device does not take what it is told
   */
  async enable(setup: PciQueueSetup): Promise<void> {
    if (typeof setup !== 'object' || setup === null)
      throw new VringError('EINVAL', `setup must be {size, areas, vector}, got ${show(setup)}`);
    const { size, areas, vector } = setup;
    const { common, negotiation } = this.host;
    if (negotiation.state !== 'complete')
      throw new VringError('EINVAL', `queue ${this.index}: negotiate the features before it is enabled`);
    if (this.enabled)
      throw new VringError('EINVAL', `queue ${this.index} is enabled already: reset it first`);
    const ring = negotiation.has(Feature.RING_PACKED) ? 'packed' : 'split';
    checkSize(ring, integer(size, 'size', 1, this.sizeMax));
    const layout = areaLayout(ring, size);
    const address = (area: keyof Areas) => deviceAddress(areas, area, layout[area]);
    const [descriptor, driver, device] = [address('descriptor'), address('driver'), address('device')];
    await common.withQueue(this.index, async () => {
      await common.write('queue_size', size);
      await setVector(this.host, 'queue_msix_vector', vector);
      await common.write64('queue_desc', descriptor);
      await common.write64('queue_driver', driver);
      await common.write64('queue_device', device);
      if (negotiation.has(Feature.NOTIF_CONFIG_DATA))
        this.notifyIndex = await common.read('queue_notif_config_data');
      await common.write('queue_enable', 1);
      const taken = [await common.read('queue_size'), await common.read('queue_enable')];
      if (taken[0] !== size || taken[1] !== 1)
        throw new VringError(
          'EIO',
          `queue ${this.index} was set to size ${size} and enabled, the device shows ${taken[0]} and ${taken[1]}: reset the device`,
        );
      this.enabled = true;
    });
  }

  /**
   * Sends an available buffer notification (4.1.5.2), with data where that is negotiated.
   * @param queue the driver's side of this virtqueue; looked at only for notifications with data
   * @throws VringError EINVAL if the queue is not enabled, EIO
   */
  async notify(queue: NotificationSource): Promise<void> {
    const { notify, negotiation } = this.host;
    if (!this.enabled)
      throw new VringError('EINVAL', `queue ${this.index} is not enabled: there is nobody to notify`);
    if (negotiation.has(Feature.NOTIFICATION_DATA) && typeof queue?.notificationData !== 'function')
      throw new VringError('EINVAL', `a notification with data needs the driver queue, got ${show(queue)}`);
    if (negotiation.has(Feature.NOTIFICATION_DATA))
      await notify.write(this.notifyAt, 4, queue.notificationData(this.notifyIndex));
    else await notify.write(this.notifyAt, 2, this.notifyIndex);
  }

  /**
   * Resets this queue alone (2.6.1): afterwards no buffer is with the device, and the queue may be enabled
   * again with another size and place.
   * @throws VringError EINVAL if RING_RESET was not negotiated or the queue is not enabled; EIO
   */
  async reset(): Promise<void> {
    const { common, negotiation, polls } = this.host;
    if (!negotiation.has(Feature.RING_RESET))
      throw new VringError(
        'EINVAL',
        `queue ${this.index}: RING_RESET (40) is not negotiated, reset the device`,
      );
    if (!this.enabled) throw new VringError('EINVAL', `queue ${this.index} is not enabled`);
    await common.withQueue(this.index, async () => {
      await common.write('queue_reset', 1);
      await polled(polls, `queue_reset of queue ${this.index}`, 0, () => common.read('queue_reset'));
      this.enabled = false;
    });
  }

  /** The device was reset. @internal */
  forget(): void {
    this.enabled = false;
  }
}

function deviceAddress(
  areas: Areas,
  area: keyof Areas,
  { bytes, align }: { bytes: number; align: number },
): bigint {
  const given = areas?.[area];
  const valid = typeof given === 'bigint' || Number.isSafeInteger(given);
  const address = valid ? BigInt(given) : -1n;
  if (address < 0n || address + BigInt(bytes) > 1n << 64n || address % BigInt(align) !== 0n)
    throw new VringError(
      'EINVAL',
      `areas.${area} must be a multiple of ${align} with ${bytes} bytes below 2^64, got ${show(given)}`,
    );
  return address;
}
