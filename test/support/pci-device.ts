import { featureSet, featuresOfWords, featureWord, type PciFunction } from '../../src/index.js';
import { Negotiation } from '../../src/negotiation.js';
import { DeviceStatus, Status } from '../../src/status.js';

/** Where the model has its structures: [cfg_type, bar, offset, length]. */
const STRUCTURES = [
  [1, 4, 0x100, 60],
  [3, 2, 0x3, 1],
  [4, 4, 0x200, 16],
  [2, 4, 0x1000, 0x40],
] as const;
const NOTIFY_MULTIPLIER = 8;
const MSIX_TABLE = 0x800;
export const VECTORS = 4;

/** One queue as its registers show it. */
export interface QueueRegisters {
  sizeMax: number;
  size: number;
  vector: number;
  enable: number;
  notifyOff: number;
  configData: number;
  resetReads: number;
  /** Descriptor, driver and device area. */
  areas: [bigint, bigint, bigint];
}

/** A register of the common configuration: its name in the specification, offset and width. */
const REGISTERS: readonly [string, number, number][] = [
  ['device_feature_select', 0x00, 4],
  ['device_feature', 0x04, 4],
  ['driver_feature_select', 0x08, 4],
  ['driver_feature', 0x0c, 4],
  ['config_msix_vector', 0x10, 2],
  ['num_queues', 0x12, 2],
  ['device_status', 0x14, 1],
  ['config_generation', 0x15, 1],
  ['queue_select', 0x16, 2],
  ['queue_size', 0x18, 2],
  ['queue_msix_vector', 0x1a, 2],
  ['queue_enable', 0x1c, 2],
  ['queue_notify_off', 0x1e, 2],
  ['queue_desc', 0x20, 4],
  ['queue_desc_hi', 0x24, 4],
  ['queue_driver', 0x28, 4],
  ['queue_driver_hi', 0x2c, 4],
  ['queue_device', 0x30, 4],
  ['queue_device_hi', 0x34, 4],
  ['queue_notif_config_data', 0x38, 2],
  ['queue_reset', 0x3a, 2],
];

const READ_ONLY = [
  'device_feature',
  'num_queues',
  'config_generation',
  'queue_notify_off',
  'queue_notif_config_data',
];

/** A virtio-pci device in software, to be driven through its registers. Answers late, as one on a wire does. */
export class PciDeviceModel implements PciFunction {
  readonly config = new Uint8Array(256);
  readonly deviceConfig = new Uint8Array(16);
  readonly msixTable = new Uint8Array(VECTORS * 16);
  readonly queues: QueueRegisters[];
  readonly status: DeviceStatus;
  /** What was written to the notification structure: [offset, bytes, value]. */
  readonly notifications: [number, number, number][] = [];
  /** Names of the registers that were written, with the values. */
  readonly written: [string, number][] = [];
  /** Replaces what a register shows. */
  readonly lies = new Map<string, (value: number) => number>();
  /** Called when a byte of the device-specific configuration was read. */
  configRead: (() => void) | undefined;
  /** Whether the device takes features that are a valid part of its offer. */
  supports = true;
  isr = 0;
  generation = 0;
  resets = 0;
  /** Reads of the status that show the value from before a reset. */
  slowReset = 0;
  private stale: number[] = [];
  private deviceSelect = 0;
  private driverSelect = 0;
  private driverWords = [0, 0, 0, 0];
  private queueSelect = 0;
  private configVector = 0xffff;

  constructor(features: number[], queueSizes: number[] = [256, 256]) {
    const negotiation = Negotiation.offer(features, { transport: 'pci' });
    this.status = new DeviceStatus(negotiation, { supports: () => this.supports });
    this.queues = queueSizes.map((sizeMax, index) => ({
      sizeMax,
      size: sizeMax,
      vector: 0xffff,
      enable: 0,
      notifyOff: index,
      configData: 0x1230 + index,
      resetReads: 0,
      areas: [0n, 0n, 0n],
    }));
    this.writeHeader();
  }

  private writeHeader(): void {
    const view = new DataView(this.config.buffer);
    view.setUint16(0x00, 0x1af4, true);
    view.setUint16(0x02, 0x1042, true);
    view.setUint16(0x06, 0x10, true);
    this.config[0x34] = 0x40;
    let at = 0x40;
    for (const [type, bar, offset, length] of STRUCTURES) {
      const bytes = type === 2 ? 20 : 16;
      this.config.set([0x09, at + bytes, bytes, type, bar], at);
      view.setUint32(at + 8, offset, true);
      view.setUint32(at + 12, length, true);
      if (type === 2) view.setUint32(at + 16, NOTIFY_MULTIPLIER, true);
      at += bytes;
    }
    this.config.set([0x11, 0], at);
    view.setUint16(at + 2, VECTORS - 1, true);
    view.setUint32(at + 4, MSIX_TABLE | 1, true);
    this.msixAt = at;
  }

  /** Offset of the MSI-X capability. */
  msixAt = 0;

  /** Offset in the configuration space of the capability with this `cfg_type`. */
  capability(type: number): number {
    for (let at = this.config[0x34]; at !== 0; at = this.config[at + 1])
      if (this.config[at] === 0x09 && this.config[at + 3] === type) return at;
    throw new Error(`no capability of type ${type}`);
  }

  private get queue(): QueueRegisters | undefined {
    return this.queues[this.queueSelect];
  }

  async readConfig(offset: number, width: number): Promise<number> {
    return this.little(this.config, offset, width);
  }

  async writeConfig(offset: number, width: number, value: number): Promise<void> {
    if (offset !== this.msixAt + 2 || width !== 2)
      throw new Error(`wrote ${width} bytes at ${offset} of the configuration space`);
    this.config[offset] = value & 0xff;
    this.config[offset + 1] = value >> 8;
  }

  async readBar(bar: number, offset: number, width: number): Promise<number> {
    const type = this.locate(bar, offset, width);
    if (type === 3) {
      const { isr } = this;
      this.isr = 0;
      return isr;
    }
    if (type === 4) {
      const value = this.little(this.deviceConfig, offset - 0x200, width);
      this.configRead?.();
      return value;
    }
    if (type !== 1) throw new Error(`read BAR ${bar} at ${offset}: nothing to read there`);
    const name = this.register(offset - 0x100, width);
    const value = this.show(name);
    return this.lies.get(name)?.(value) ?? value;
  }

  async writeBar(bar: number, offset: number, width: number, value: number): Promise<void> {
    const type = this.locate(bar, offset, width);
    if (type === 2) this.notifications.push([offset - 0x1000, width, value]);
    else if (type === 'msix') new DataView(this.msixTable.buffer).setUint32(offset - MSIX_TABLE, value, true);
    else if (type === 4) {
      for (let i = 0; i < width; i++) this.deviceConfig[offset - 0x200 + i] = (value >>> (8 * i)) & 0xff;
    } else if (type === 1) {
      const name = this.register(offset - 0x100, width);
      if (READ_ONLY.includes(name)) throw new Error(`${name} was written`);
      this.written.push([name, value]);
      this.take(name, value);
    } else throw new Error(`wrote BAR ${bar} at ${offset}: nothing to write there`);
  }

  private little(bytes: Uint8Array, offset: number, width: number): number {
    if (offset % width !== 0 || offset + width > bytes.length)
      throw new Error(`read ${width} bytes at ${offset} of ${bytes.length}`);
    let value = 0;
    for (let i = width - 1; i >= 0; i--) value = value * 256 + bytes[offset + i];
    return value;
  }

  private locate(bar: number, offset: number, width: number): number | 'msix' {
    if (bar === 1 && offset >= MSIX_TABLE && offset + width <= MSIX_TABLE + 16 * VECTORS) return 'msix';
    for (const [type, at, start, length] of STRUCTURES)
      if (bar === at && offset >= start && offset + width <= start + length) return type;
    throw new Error(`${width} bytes at ${offset} of BAR ${bar} are in no structure`);
  }

  private register(at: number, width: number): string {
    const found = REGISTERS.find((register) => register[1] === at);
    if (found?.[2] !== width) throw new Error(`an access of ${width} bytes at ${at} is no whole register`);
    return found[0];
  }

  private show(name: string): number {
    const { queue, status } = this;
    const area = /^queue_(desc|driver|device)(_hi)?$/.exec(name);
    if (area !== null) {
      const address = queue?.areas[['desc', 'driver', 'device'].indexOf(area[1])] ?? 0n;
      return Number(area[2] ? address >> 32n : address & 0xffffffffn);
    }
    switch (name) {
      case 'device_feature_select':
        return this.deviceSelect;
      case 'device_feature':
        return featureWord(status.negotiation.offered, this.deviceSelect);
      case 'driver_feature_select':
        return this.driverSelect;
      case 'driver_feature':
        return this.driverWords[this.driverSelect] ?? 0;
      case 'config_msix_vector':
        return this.configVector;
      case 'num_queues':
        return this.queues.length;
      case 'device_status':
        return this.stale.pop() ?? status.value;
      case 'config_generation':
        return this.generation & 0xff;
      case 'queue_select':
        return this.queueSelect;
      case 'queue_size':
        return queue?.size ?? 0;
      case 'queue_msix_vector':
        return queue?.vector ?? 0xffff;
      case 'queue_enable':
        return queue?.enable ?? 0;
      case 'queue_notify_off':
        return queue?.notifyOff ?? 0;
      case 'queue_notif_config_data':
        return queue?.configData ?? 0;
      case 'queue_reset':
        if (queue === undefined || queue.resetReads === 0) return 0;
        queue.resetReads--;
        return queue.resetReads > 0 ? 1 : 0;
    }
    throw new Error(`${name} was read`);
  }

  private take(name: string, value: number): void {
    const { queue, status } = this;
    const area = /^queue_(desc|driver|device)(_hi)?$/.exec(name);
    if (area !== null && queue !== undefined) {
      const index = ['desc', 'driver', 'device'].indexOf(area[1]);
      const now = queue.areas[index];
      const word = BigInt(value);
      queue.areas[index] = area[2] ? (word << 32n) | (now & 0xffffffffn) : ((now >> 32n) << 32n) | word;
      return;
    }
    switch (name) {
      case 'device_feature_select':
        this.deviceSelect = value;
        return;
      case 'driver_feature_select':
        this.driverSelect = value;
        return;
      case 'driver_feature':
        this.driverWords[this.driverSelect] = value;
        return;
      case 'config_msix_vector':
        this.configVector = value;
        return;
      case 'queue_select':
        this.queueSelect = value;
        return;
      case 'device_status':
        this.writeStatus(value);
        return;
    }
    if (queue === undefined) throw new Error(`${name} was written with queue ${this.queueSelect} selected`);
    switch (name) {
      case 'queue_size':
        queue.size = value;
        return;
      case 'queue_msix_vector':
        queue.vector = value;
        return;
      case 'queue_enable':
        if (value !== 1 || !status.has(Status.FEATURES_OK)) throw new Error(`queue_enable = ${value}`);
        queue.enable = 1;
        return;
      case 'queue_reset':
        if (value !== 1) throw new Error(`queue_reset = ${value}`);
        this.resetQueue(queue);
        queue.resetReads = 3;
        return;
    }
    throw new Error(`${name} was written`);
  }

  private writeStatus(value: number): void {
    if (value === 0) {
      this.stale = new Array<number>(this.slowReset).fill(this.status.value);
      this.resets++;
      this.configVector = 0xffff;
      this.driverWords = [0, 0, 0, 0];
      this.queues.forEach((queue) => {
        this.resetQueue(queue);
      });
    }
    if (value & Status.FEATURES_OK && !this.status.has(Status.FEATURES_OK))
      this.status.negotiation.acceptUnchecked(featureSet(featuresOfWords(this.driverWords)));
    this.status.write(value);
  }

  private resetQueue(queue: QueueRegisters): void {
    queue.size = queue.sizeMax;
    queue.vector = 0xffff;
    queue.enable = 0;
    queue.areas = [0n, 0n, 0n];
  }
}
