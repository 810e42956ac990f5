import { show, VringError } from '../../errors.js';
import { Feature, type Features, featureSet, featuresOfWords, featureWord } from '../../features.js';
import { Negotiation, type NegotiationOptions } from '../../negotiation.js';
import { integer } from '../../queue/check.js';
import { DeviceStatus, describeStatus, Status } from '../../status.js';
import { findLayout, type Layout } from './capabilities.js';
import { CommonConfig } from './common-config.js';
import type { AccessWidth, PciFunction } from './function.js';
import { readDeviceId } from './identity.js';
import { Msix } from './msix.js';
import { polled } from './polled.js';
import { PciQueue, type PciQueueHost, setVector } from './queue.js';

export interface PciOptions extends Pick<NegotiationOptions, 'deviceType' | 'experimental'> {
  /** How often a register is read, 1 ms apart, until the device is taken for dead: 1000 if absent. */
  polls?: number;
}

/** A field of the device-specific configuration. One of 64 bits is two of 32. */
export interface ConfigField {
  /** In bytes; a multiple of the width. */
  offset: number;
  width: AccessWidth;
}

const FUNCTION_METHODS = ['readConfig', 'writeConfig', 'readBar', 'writeBar'] as const;

/** Feature bits 0 to 127: beyond them the specification defines none. */
const FEATURE_WORDS = 4;

/** What takes more than this transport has: other functions, other queues, other steps of the status. */
const BEYOND: readonly number[] = [Feature.SR_IOV, Feature.ADMIN_VQ, Feature.SUSPEND];

/**
 * The driver's side of virtio over PCI (virtio 1.4, 4.1), for devices with the modern interface.
 *
 * ```ts
 * const device = await PciTransport.open(pciFunction);
 * const features = await device.negotiate([Feature.VERSION_1, Feature.EVENT_IDX]);
 * const queue = await device.queue(0);
 * await queue.enable({ size, areas });     // of a driver queue that was made with these features
 * await device.start();
 * if (driver.kickPrepare()) await queue.notify(driver);
 * ```
 *
 * The device is not trusted: what it shows is checked before it is used, and nothing waits for it forever.
 */
export class PciTransport {
  /** What the device offers and what was negotiated. */
  readonly negotiation: Negotiation;
  private readonly mirror: DeviceStatus;
  private readonly queues = new Map<number, PciQueue>();
  /** What FEATURES_OK was read back as. */
  private featuresTaken = false;

  private constructor(
    private readonly layout: Layout,
    private readonly host: Omit<PciQueueHost, 'negotiation'>,
    offer: Features,
    options: PciOptions,
    /** Virtio device ID (chapter 5): 1 is a network device, 2 a block device. */
    readonly deviceId: number,
    /** Virtqueues of the device; administration virtqueues not among them. */
    readonly numQueues: number,
  ) {
    this.negotiation = Negotiation.receive(offer, { ...options, transport: 'pci' });
    this.mirror = new DeviceStatus(this.negotiation, { supports: () => this.featuresTaken });
  }

  /**
   * Finds the device's registers, resets it and reads what it offers.
   * @throws VringError ENOTSUP if the function is no virtio device or has only the legacy interface; EPROTO or
   *   ELOOP if its capabilities make no sense; EIO if it does not respond
   */
  static async open(pci: PciFunction, options: PciOptions = {}): Promise<PciTransport> {
    if (FUNCTION_METHODS.some((name) => typeof pci?.[name] !== 'function'))
      throw new VringError('EINVAL', `pci must have ${FUNCTION_METHODS.join(', ')}, got ${show(pci)}`);
    if (typeof options !== 'object' || options === null)
      throw new VringError(
        'EINVAL',
        `options must be {polls, deviceType, experimental}, got ${show(options)}`,
      );
    const polls = integer(options.polls ?? 1000, 'polls', 1, 2 ** 31 - 1);
    const deviceId = await readDeviceId(pci);
    const layout = await findLayout(pci);
    const common = new CommonConfig(layout.common);
    const msix = layout.msix === undefined ? undefined : await Msix.at(pci, layout.msix);
    await resetDevice(common, polls);
    const started = Status.ACKNOWLEDGE | Status.DRIVER;
    await common.write('device_status', Status.ACKNOWLEDGE);
    await common.write('device_status', started);
    const words: number[] = [];
    for (let select = 0; select < FEATURE_WORDS; select++) {
      await common.write('device_feature_select', select);
      words.push(await common.read('device_feature'));
    }
    const host = { common, msix, notify: layout.notify, polls };
    const numQueues = await common.read('num_queues');
    const transport = new PciTransport(layout, host, featuresOfWords(words), options, deviceId, numQueues);
    transport.mirror.write(started);
    return transport;
  }

  /** MSI-X of the function; undefined if it has none. */
  get msix(): Msix | undefined {
    return this.host.msix;
  }

  /** The queues may be used, as far as is known: `readStatus` asks the device. */
  get live(): boolean {
    return this.mirror.live;
  }

  /**
   * Negotiates as much of `understood` as the device offers (3.1.1, steps 1 to 6). Also after a reset.
   * @returns the negotiated set
   * @throws VringError EINVAL if the device offers no VERSION_1 or a negotiation has ended already; ENOTSUP if
   *   the device refuses the set; EIO. The device is told FAILED.
   */
  async negotiate(understood: Features): Promise<ReadonlySet<number>> {
    const { common } = this.host;
    if (this.negotiation.state !== 'open')
      throw new VringError('EINVAL', `the negotiation is ${this.negotiation.state}: reset the device first`);
    const bits = new Set([...featureSet(understood)].filter((bit) => !BEYOND.includes(bit)));
    await this.advance(Status.ACKNOWLEDGE);
    await this.advance(Status.DRIVER);
    try {
      this.negotiation.accept(this.negotiation.choose(bits));
      for (let select = 0; select < FEATURE_WORDS; select++) {
        await common.write('driver_feature_select', select);
        await common.write('driver_feature', featureWord(this.negotiation.accepted, select));
      }
      await this.advance(Status.FEATURES_OK);
      if (this.negotiation.refusal !== undefined)
        throw new VringError(
          'ENOTSUP',
          `${this.negotiation.refusal}: reset the device and negotiate other features`,
        );
    } catch (error) {
      // A device that does not respond fails here once more; the first error says why.
      await this.fail().catch(() => undefined);
      throw error;
    }
    return this.negotiation.negotiated;
  }

  /**
   * The device's end of a virtqueue.
   * @param index 0 … numQueues - 1
   * @throws VringError EINVAL for another index; ENOTSUP if the device does not have this queue; EPROTO if its
   *   notification address is outside the notification structure; EIO
   */
  async queue(index: number): Promise<PciQueue> {
    if (!Number.isInteger(index) || index < 0 || index >= this.numQueues)
      throw new VringError('EINVAL', `queue ${show(index)}: the device has ${this.numQueues}, from 0 on`);
    return this.host.common.withQueue(index, async () => {
      const queue = this.queues.get(index) ?? (await this.findSelected(index));
      this.queues.set(index, queue);
      return queue;
    });
  }

  private async findSelected(index: number): Promise<PciQueue> {
    const { common, notify } = this.host;
    const sizeMax = await common.read('queue_size');
    if (sizeMax === 0)
      throw new VringError('ENOTSUP', `queue ${index} is unavailable: the device shows size 0`);
    const at = (await common.read('queue_notify_off')) * this.layout.notifyMultiplier;
    // With data a notification has 32 bits.
    const width = this.negotiation.offered.has(Feature.NOTIFICATION_DATA) ? 4 : 2;
    if (at % width !== 0 || at + width > notify.length)
      throw new VringError(
        'EPROTO',
        `queue ${index} has its notification address at ${at} of a structure of ${notify.length} bytes: it needs ${width} aligned bytes there`,
      );
    const { negotiation } = this;
    return new PciQueue({ ...this.host, negotiation }, index, sizeMax, at);
  }

  /**
   * Sets DRIVER_OK: the device runs. The queues that it uses must be enabled.
   * @throws VringError EINVAL before the features are negotiated, EIO
   */
  async start(): Promise<void> {
    await this.advance(Status.DRIVER_OK);
  }

  /**
   * Reads the device status. Without DRIVER_OK, or with DEVICE_NEEDS_RESET, the device is `live` no longer, and
   * no buffer comes back before a `reset`.
   * @returns bits of `Status`
   * @throws VringError EPROTO if bits that were set are gone: the device was reset behind the driver's back; EIO
   */
  async readStatus(): Promise<number> {
    const value = await this.host.common.read('device_status');
    const lost = this.mirror.value & ~value & ~Status.DEVICE_NEEDS_RESET;
    if (value & Status.DEVICE_NEEDS_RESET || lost !== 0) this.mirror.needsReset();
    if (lost !== 0)
      throw new VringError(
        'EPROTO',
        `the device shows status ${describeStatus(value)}, without ${describeStatus(lost)} that was set: reset it`,
      );
    return value;
  }

  /** Tells the device that the driver has given up on it (FAILED). @throws VringError EIO */
  async fail(): Promise<void> {
    await this.advance(Status.FAILED);
  }

  /**
   * Resets the device: no buffer is with it any more, no queue is enabled, nothing is negotiated.
   * @throws VringError EIO if the device does not come to the end of it
   */
  async reset(): Promise<void> {
    this.mirror.needsReset();
    await resetDevice(this.host.common, this.host.polls);
    this.mirror.reset();
    for (const queue of this.queues.values()) queue.forget();
  }

  /** Sets the vector of configuration changes, DEVICE_NEEDS_RESET among them; none if absent. A reset forgets it. */
  async setConfigVector(vector?: number): Promise<void> {
    await setVector(this.host, 'config_msix_vector', vector);
  }

  /** Reads the ISR status (4.1.4.5), which clears it. Of use only while MSI-X is off. */
  async readIsr(): Promise<{ queue: boolean; config: boolean }> {
    const isr = await this.layout.isr.read(0, 1);
    return { queue: (isr & 1) !== 0, config: (isr & 2) !== 0 };
  }

  /**
   * Reads fields of the device-specific configuration, all of one generation (2.5.1).
   * @throws VringError EINVAL outside the structure, ENOTSUP if there is none, EIO
   */
  async readConfig(fields: readonly ConfigField[]): Promise<number[]> {
    const { common, polls } = this.host;
    if (!Array.isArray(fields))
      throw new VringError('EINVAL', `fields must be an array of {offset, width}, got ${show(fields)}`);
    for (let left = polls; left > 0; left--) {
      const before = await common.read('config_generation');
      const values: number[] = [];
      for (const field of fields) values.push(await this.deviceConfig.read(field?.offset, field?.width));
      if ((await common.read('config_generation')) === before) return values;
    }
    throw new VringError('EIO', `the device changed its configuration during each of ${polls} reads`);
  }

  /** Writes a field of the device-specific configuration. @throws VringError EINVAL, ENOTSUP, EIO */
  async writeConfig(field: ConfigField, value: number): Promise<void> {
    await this.deviceConfig.write(field?.offset, field?.width, value);
  }

  private get deviceConfig() {
    const { device } = this.layout;
    if (device === undefined)
      throw new VringError('ENOTSUP', 'the device has no device-specific configuration');
    return device;
  }

  /** Sets a bit of the device status, by the rules, and takes over what the device makes of it. */
  private async advance(bit: Status): Promise<void> {
    const { common } = this.host;
    const wanted = this.mirror.value | bit;
    const problem = this.mirror.problem(wanted);
    if (problem !== undefined) throw new VringError('EINVAL', problem);
    await common.write('device_status', wanted);
    const shown = await common.read('device_status');
    this.featuresTaken = (shown & Status.FEATURES_OK) !== 0;
    this.mirror.write(wanted);
    if (shown & Status.DEVICE_NEEDS_RESET) this.mirror.needsReset();
  }
}

async function resetDevice(common: CommonConfig, polls: number): Promise<void> {
  await common.write('device_status', 0);
  await polled(polls, 'device_status', 0, () => common.read('device_status'));
}
