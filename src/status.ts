import { VringError } from './errors.js';
import { Feature } from './features.js';
import type { Negotiation } from './negotiation.js';

/** Bits of the device status field (virtio 1.4, 2.1). */
export enum Status {
  ACKNOWLEDGE = 1,
  DRIVER = 2,
  DRIVER_OK = 4,
  FEATURES_OK = 8,
  SUSPEND = 16,
  DEVICE_NEEDS_RESET = 64,
  FAILED = 128,
}

const ALL = 1 | 2 | 4 | 8 | 16 | 64 | 128;

/** The names of the bits in `value`, such as `ACKNOWLEDGE|DRIVER (3)`. */
export function describeStatus(value: number): string {
  const names = [];
  for (let bit = 1; bit <= 128; bit <<= 1) {
    if (value & bit) names.push(Status[bit] ?? `bit ${bit}`);
  }
  return names.length > 0 ? `${names.join('|')} (${value})` : '0';
}

/** What the bit needs to be set already (3.1.1). */
const NEEDS: ReadonlyMap<number, Status> = new Map([
  [Status.DRIVER, Status.ACKNOWLEDGE],
  [Status.FEATURES_OK, Status.DRIVER],
  [Status.DRIVER_OK, Status.FEATURES_OK],
]);

export interface DeviceStatusOptions {
  /**
   * The device's own word on a set of features that is valid by the rules. It should say the same about
   * the same set every time: a driver that recovers by a reset negotiates again what it had (2.2.2).
   */
  supports?: (features: ReadonlySet<number>) => boolean;
  /** Sends a configuration change notification to the driver. */
  notifyConfigChange?: () => void;
}

/**
 * The device status field (2.1) and what its bits set off: FEATURES_OK completes the negotiation, 0
 * resets. `value` is what the driver reads, `write` is what the driver writes; the other methods belong
 * to the device.
 *
 * Suspending and resuming take time, so they are asked for by the driver (`suspending`, `resuming`) and
 * reported by the device (`suspended`, `resumed`, or `needsReset` where it fails).
 */
export class DeviceStatus {
  readonly negotiation: Negotiation;
  private readonly options: DeviceStatusOptions;
  private value_ = 0;
  private suspending_ = false;
  private resuming_ = false;
  private configChange = false;

  constructor(negotiation: Negotiation, options: DeviceStatusOptions = {}) {
    this.negotiation = negotiation;
    this.options = options;
  }

  get value(): number {
    return this.value_;
  }

  has(bit: Status): boolean {
    return (this.value_ & bit) !== 0;
  }

  /**
   * The queues may be used: DRIVER_OK is set, and nobody has given up. False while suspended. It is no
   * licence to take exposed buffers back: only a reset is (3.3.1).
   */
  get live(): boolean {
    return (
      (this.value_ & (Status.DRIVER_OK | Status.DEVICE_NEEDS_RESET | Status.FAILED)) === Status.DRIVER_OK
    );
  }

  /** The driver has asked to suspend: it adds nothing any more, the device finishes what it has. */
  get suspending(): boolean {
    return this.suspending_;
  }

  /** The driver of a suspended device has asked to resume. */
  get resuming(): boolean {
    return this.resuming_;
  }

  /** What is wrong with writing `value` now; undefined if the driver may. */
  problem(value: number): string | undefined {
    if (!Number.isInteger(value) || value < 0 || value > 255) {
      return `status ${value} is not a byte: write the sum of bits of Status`;
    }
    if (value === 0) return undefined;
    // DEVICE_NEEDS_RESET comes at any time: a driver that has not seen it yet does not clear it.
    const cleared = this.value_ & ~value & ~Status.DEVICE_NEEDS_RESET;
    const added = value & ~this.value_;
    if (added & ~ALL) return `${describeStatus(added & ~ALL)} is not defined: leave it out`;
    if (cleared !== 0) {
      return `writing ${describeStatus(value)} clears ${describeStatus(cleared)}: add bits to the ${describeStatus(this.value_)} that is set, or write 0 to reset`;
    }
    if (added & Status.DEVICE_NEEDS_RESET) {
      return `${describeStatus(Status.DEVICE_NEEDS_RESET)} is for the device to set: leave it out`;
    }
    if (added !== 0 && this.has(Status.FAILED)) {
      return `${describeStatus(added)} after FAILED: write 0 to reset first`;
    }
    // ACKNOWLEDGE and DRIVER may come in one write. The other steps need something done between them.
    const known = this.value_ | (value & Status.ACKNOWLEDGE);
    for (const [bit, needed] of NEEDS) {
      if (added & bit && !(known & needed)) {
        return `${describeStatus(bit)} before ${describeStatus(needed)}: set that first, and read it back`;
      }
    }
    if (added & Status.FEATURES_OK && this.negotiation.state === 'refused') {
      return `the device refused these features (${this.negotiation.refusal}): write 0 to reset and accept others`;
    }
    return undefined;
  }

  /**
   * The driver writes the field. Read `value` afterwards: FEATURES_OK is not set where the device does
   * not take the features (`negotiation.refusal` says why), SUSPEND is ignored on a device that is not
   * initialized or did not negotiate it, and takes effect when the device says so.
   * @throws VringError EINVAL if the driver breaks the rules; nothing changed then. A transport that
   * serves a driver it does not trust drops such a write.
   */
  write(value: number): void {
    const problem = this.problem(value);
    if (problem !== undefined) throw new VringError('EINVAL', problem);
    if (value === 0) {
      this.reset();
      return;
    }
    let added = value & ~this.value_;
    if (added & Status.SUSPEND) {
      added &= ~Status.SUSPEND;
      if (this.live && this.negotiation.has(Feature.SUSPEND)) this.suspending_ = true;
    }
    if (added & Status.DRIVER_OK && this.has(Status.SUSPEND)) {
      added &= ~Status.DRIVER_OK;
      this.resuming_ = !this.has(Status.DEVICE_NEEDS_RESET);
    }
    if (added & Status.FEATURES_OK && !this.negotiation.complete(this.options.supports)) {
      added &= ~Status.FEATURES_OK;
    }
    this.value_ |= added;
    this.deliver();
  }

  /**
   * The driver asks to suspend.
   * @throws VringError EINVAL unless the device is live and SUSPEND was negotiated
   */
  suspend(): void {
    if (!this.live || !this.negotiation.has(Feature.SUSPEND)) {
      throw new VringError(
        'EINVAL',
        `cannot suspend: status is ${describeStatus(this.value_)}, ${this.negotiation.describe(Feature.SUSPEND)} is ${this.negotiation.has(Feature.SUSPEND) ? '' : 'not '}negotiated; it takes DRIVER_OK and the feature`,
      );
    }
    this.write(this.value_ | Status.SUSPEND);
  }

  /**
   * The driver asks to resume.
   * @throws VringError EINVAL unless the device is suspended
   */
  resume(): void {
    if (!this.has(Status.SUSPEND)) {
      throw new VringError(
        'EINVAL',
        `cannot resume: status is ${describeStatus(this.value_)}; wait until SUSPEND is set`,
      );
    }
    this.write(this.value_ | Status.DRIVER_OK);
  }

  /** The device has used every buffer it took, has notified the driver of them, and stands still. */
  suspended(): void {
    this.checkAsked(this.suspending_, 'suspend');
    this.suspending_ = false;
    this.value_ = (this.value_ & ~Status.DRIVER_OK) | Status.SUSPEND;
  }

  /** The device runs again. */
  resumed(): void {
    this.checkAsked(this.resuming_, 'resume');
    this.resuming_ = false;
    this.value_ = (this.value_ & ~Status.SUSPEND) | Status.DRIVER_OK;
    this.deliver();
  }

  /** The device cannot go on without a reset. Tells the driver if DRIVER_OK is set. */
  needsReset(): void {
    this.suspending_ = false;
    this.resuming_ = false;
    if (this.has(Status.DEVICE_NEEDS_RESET)) return;
    this.value_ |= Status.DEVICE_NEEDS_RESET;
    this.configChanged();
  }

  /** The configuration space has changed. Tells the driver, at the latest when DRIVER_OK is set again. */
  configChanged(): void {
    this.configChange = true;
    this.deliver();
  }

  /** Everything as at the start, the offer excepted. */
  reset(): void {
    this.value_ = 0;
    this.suspending_ = false;
    this.resuming_ = false;
    this.configChange = false;
    this.negotiation.reset();
  }

  private checkAsked(asked: boolean, what: string): void {
    if (!asked) {
      throw new VringError(
        'EINVAL',
        `the driver did not ask to ${what}: status is ${describeStatus(this.value_)}`,
      );
    }
  }

  private deliver(): void {
    if (this.configChange && this.has(Status.DRIVER_OK)) {
      this.configChange = false;
      this.options.notifyConfigChange?.();
    }
  }
}
