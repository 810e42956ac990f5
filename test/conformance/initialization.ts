import type { Chapter } from './statement.js';

const LEGACY = 'Legacy interface: vring implements neither transitional devices nor transitional drivers.';
const NO_CONFIG = 'vring has no device configuration space: it belongs to whoever implements a device type.';
const NO_SR_IOV = 'vring has no PCI device and so no SR-IOV capability structure.';

/** virtio 1.4, 2.1, 2.2, 2.4, 2.6.1, chapter 3 and chapter 6 */
export const initialization: Chapter = {
  title: 'Device status, features, initialization and reset',
  sections: [
    {
      number: '2.1.1',
      title: 'Driver Requirements: Device Status Field',
      statements: [
        {
          id: 'status-driver-steps',
          binds: 'driver',
          level: 'MUST',
          text: 'Each step of the initialization that is done sets its bit.',
        },
        {
          id: 'status-driver-no-clear',
          binds: 'driver',
          level: 'MUST NOT',
          text: 'No bit is cleared.',
        },
        {
          id: 'status-driver-failed',
          binds: 'driver',
          level: 'MUST',
          text: 'After FAILED comes a reset before the next attempt.',
        },
        {
          id: 'status-driver-needs-reset',
          binds: 'driver',
          level: 'SHOULD NOT',
          text: 'While DEVICE_NEEDS_RESET is set nobody counts on buffers coming back.',
        },
      ],
    },
    {
      number: '2.1.2',
      title: 'Device Requirements: Device Status Field',
      statements: [
        {
          id: 'status-device-before-driver-ok',
          binds: 'device',
          level: 'MUST NOT',
          text: 'Before DRIVER_OK no buffer is consumed and no used buffer notification is sent.',
        },
        {
          id: 'status-device-needs-reset',
          binds: 'device',
          level: 'SHOULD',
          text: 'An error that only a reset can end sets DEVICE_NEEDS_RESET.',
        },
        {
          id: 'status-device-needs-reset-notifies',
          binds: 'device',
          level: 'MUST',
          text: 'DEVICE_NEEDS_RESET is followed by a configuration change notification if DRIVER_OK is set.',
        },
      ],
    },
    {
      number: '2.2.1',
      title: 'Driver Requirements: Feature Bits',
      statements: [
        {
          id: 'feature-driver-offered',
          binds: 'driver',
          level: 'MUST NOT',
          text: 'Nothing is accepted that was not offered.',
        },
        {
          id: 'feature-driver-requires',
          binds: 'driver',
          level: 'MUST NOT',
          text: 'Nothing is accepted without the features that it requires.',
        },
        {
          id: 'feature-driver-validates',
          binds: 'driver',
          level: 'MUST',
          text: 'The offer is checked.',
        },
        {
          id: 'feature-driver-undescribed',
          binds: 'driver',
          level: 'MUST',
          text: 'A bit that the specification does not describe is ignored and not accepted.',
        },
        {
          id: 'feature-driver-reserved',
          binds: 'driver',
          level: 'MUST',
          text: 'A reserved bit is ignored and not accepted.',
        },
        {
          id: 'feature-driver-transport',
          binds: 'driver',
          level: 'MUST',
          text: 'A feature that the transport does not support is ignored and not accepted.',
        },
        {
          id: 'feature-driver-device-type',
          binds: 'driver',
          level: 'MUST',
          text: 'A bit that the device type does not define is ignored and not accepted.',
        },
        {
          id: 'feature-driver-backwards',
          binds: 'driver',
          level: 'SHOULD',
          text: 'Without a feature it knows a driver falls back to doing without.',
        },
        {
          id: 'feature-driver-gives-up',
          binds: 'driver',
          level: 'MUST',
          text: 'A driver that cannot do without sets FAILED and stops.',
        },
        {
          id: 'feature-driver-unknown-offer',
          binds: 'driver',
          level: 'MUST NOT',
          text: 'An offered feature that a driver does not know is no reason to fail.',
        },
      ],
    },
    {
      number: '2.2.2',
      title: 'Device Requirements: Feature Bits',
      statements: [
        {
          id: 'feature-device-requires',
          binds: 'device',
          level: 'MUST NOT',
          text: 'Nothing is offered without the features that it requires.',
        },
        {
          id: 'feature-device-subset',
          binds: 'device',
          level: 'SHOULD',
          text: 'Every valid part of the offer is good enough.',
        },
        {
          id: 'feature-device-refuses',
          binds: 'device',
          level: 'MUST',
          text: 'Features that the device does not take leave FEATURES_OK unset.',
        },
        {
          id: 'feature-device-unsupported',
          binds: 'device',
          level: 'MUST NOT',
          text: 'Nothing is offered that could not be kept: undescribed, reserved, or not for this transport or type.',
        },
        {
          id: 'feature-device-again',
          binds: 'device',
          level: 'SHOULD NOT',
          text: 'What was negotiated once does not fail after a reset.',
        },
      ],
    },
    {
      number: '2.2.3',
      title: 'Legacy Interface: A Note on Feature Bits',
      statements: [
        {
          id: 'feature-driver-legacy-detect',
          binds: 'driver',
          level: 'MUST',
          text: 'A transitional driver tells a legacy device by VERSION_1 not being offered.',
          notApplicable: LEGACY,
        },
        {
          id: 'feature-device-legacy-detect',
          binds: 'device',
          level: 'MUST',
          text: 'A transitional device tells a legacy driver by VERSION_1 not being accepted.',
          notApplicable: LEGACY,
        },
        {
          id: 'feature-device-legacy-rules',
          binds: 'device',
          level: 'MUST',
          text: 'Transitional sides follow the legacy sections where the legacy interface is in use.',
          notApplicable: LEGACY,
        },
      ],
    },
    {
      number: '2.4.1',
      title: 'Device Requirements: Device Reset',
      statements: [
        {
          id: 'reset-device-status',
          binds: 'device',
          level: 'MUST',
          text: 'A reset makes the device status 0.',
        },
        {
          id: 'reset-device-silent',
          binds: 'device',
          level: 'MUST NOT',
          text: 'From then until the driver has initialized it again, the device sends nothing and touches no queue.',
        },
      ],
    },
    {
      number: '2.4.2',
      title: 'Driver Requirements: Device Reset',
      statements: [
        {
          id: 'reset-driver-complete',
          binds: 'driver',
          level: 'SHOULD',
          text: 'A reset is over when the device status reads 0.',
        },
      ],
    },
    {
      number: '2.6.1.1.1',
      title: 'Device Requirements: Virtqueue Reset',
      statements: [
        {
          id: 'reset-device-queue-silent',
          binds: 'device',
          level: 'MUST NOT',
          text: 'A queue that was reset is neither served nor notified for.',
        },
        {
          id: 'reset-device-queue-state',
          binds: 'device',
          level: 'MUST',
          text: 'A queue reset brings all of its state back to the start.',
        },
      ],
    },
    {
      number: '2.6.1.1.2',
      title: 'Driver Requirements: Virtqueue Reset',
      statements: [
        {
          id: 'reset-driver-queue-verifies',
          binds: 'driver',
          level: 'MUST',
          text: 'The driver makes sure that the queue has really been reset.',
          notApplicable:
            'How a queue reset is asked for and confirmed is defined by the transport; the queues themselves have no such register.',
        },
      ],
    },
    {
      number: '2.6.1.2.1',
      title: 'Device Requirements: Virtqueue Re-enable',
      statements: [
        {
          id: 'reset-device-queue-config',
          binds: 'device',
          level: 'MUST',
          text: 'A queue that is enabled again follows its new configuration, such as its size.',
        },
      ],
    },
    {
      number: '2.6.1.2.2',
      title: 'Driver Requirements: Virtqueue Re-enable',
      statements: [
        {
          id: 'reset-driver-queue-config',
          binds: 'driver',
          level: 'MUST',
          text: 'The driver sets a queue up again as if for the first time.',
        },
      ],
    },
    {
      number: '3.1.1',
      title: 'Driver Requirements: Device Initialization',
      statements: [
        {
          id: 'init-driver-sequence',
          binds: 'driver',
          level: 'MUST',
          text: 'Reset, ACKNOWLEDGE, DRIVER, features, FEATURES_OK, read it back, set up, DRIVER_OK: in this order.',
        },
        {
          id: 'init-driver-no-config-write',
          binds: 'driver',
          level: 'MUST NOT',
          text: 'While features are negotiated the configuration space is not written.',
          notApplicable: NO_CONFIG,
        },
        {
          id: 'init-driver-no-new-features',
          binds: 'driver',
          level: 'MUST NOT',
          text: 'After FEATURES_OK no other features are accepted.',
        },
        {
          id: 'init-driver-failed',
          binds: 'driver',
          level: 'SHOULD',
          text: 'A step that fails for good is answered by FAILED.',
        },
        {
          id: 'init-driver-ceases',
          binds: 'driver',
          level: 'MUST NOT',
          text: 'After a step that failed for good the initialization does not go on.',
        },
        {
          id: 'init-driver-no-notification',
          binds: 'driver',
          level: 'MUST NOT',
          text: 'Before DRIVER_OK no available buffer notification is sent.',
        },
      ],
    },
    {
      number: '3.1.2',
      title: 'Legacy Interface: Device Initialization',
      statements: [
        {
          id: 'init-driver-legacy-sequence',
          binds: 'driver',
          level: 'MUST',
          text: 'A transitional driver leaves out the two steps of FEATURES_OK.',
          notApplicable: LEGACY,
        },
        {
          id: 'init-device-legacy-config',
          binds: 'device',
          level: 'MUST',
          text: 'A transitional device stands writes to its configuration before the features are read.',
          notApplicable: LEGACY,
        },
        {
          id: 'init-device-legacy-use',
          binds: 'device',
          level: 'MUST',
          text: 'A transitional device can be used before DRIVER_OK.',
          notApplicable: LEGACY,
        },
      ],
    },
    {
      number: '3.3.1',
      title: 'Driver Requirements: Device Cleanup',
      statements: [
        {
          id: 'cleanup-driver-exposed',
          binds: 'driver',
          level: 'MUST NOT',
          text: 'The entries of buffers that a device may still use are left as they are.',
        },
        {
          id: 'cleanup-driver-not-live',
          binds: 'driver',
          level: 'MUST',
          text: 'Exposed buffers are taken back only after a reset has ended the life of their queue.',
        },
      ],
    },
    {
      number: '3.4.1',
      title: 'Driver Requirements: Device Suspend',
      statements: [
        {
          id: 'suspend-driver-conditions',
          binds: 'driver',
          level: 'SHOULD NOT',
          text: 'SUSPEND is not set without DRIVER_OK and the feature.',
        },
        {
          id: 'suspend-driver-verifies',
          binds: 'driver',
          level: 'MUST',
          text: 'The device counts as suspended once the status shows SUSPEND without DRIVER_OK.',
        },
        {
          id: 'suspend-driver-no-buffers',
          binds: 'driver',
          level: 'MUST NOT',
          text: 'From SUSPEND on no buffer is made available.',
        },
        {
          id: 'suspend-driver-no-notification',
          binds: 'driver',
          level: 'MUST NOT',
          text: 'From SUSPEND on no queue is notified for.',
        },
        {
          id: 'suspend-driver-no-config',
          binds: 'driver',
          level: 'MUST NOT',
          text: 'From SUSPEND on the configuration space is not changed.',
          notApplicable: NO_CONFIG,
        },
        {
          id: 'suspend-driver-waits',
          binds: 'driver',
          level: 'MUST',
          text: 'After asking to resume the driver waits until the status shows DRIVER_OK without SUSPEND.',
        },
      ],
    },
    {
      number: '3.4.2',
      title: 'Device Requirements: Device Suspend',
      statements: [
        {
          id: 'suspend-device-early',
          binds: 'device',
          level: 'MUST',
          text: 'SUSPEND has no effect on a device that is not fully initialized.',
        },
        {
          id: 'suspend-device-config-writes',
          binds: 'device',
          level: 'SHOULD',
          text: 'While suspended, writes to the configuration space are ignored.',
          notApplicable: NO_CONFIG,
        },
        {
          id: 'suspend-device-idle',
          binds: 'device',
          level: 'MUST NOT',
          text: 'While suspended the device notifies for no queue, touches no queue and changes no configuration.',
        },
        {
          id: 'suspend-device-no-config-notification',
          binds: 'device',
          level: 'MUST NOT',
          text: 'While suspended no configuration change notification is sent.',
        },
        {
          id: 'suspend-device-late-notification',
          binds: 'device',
          level: 'MUST',
          text: 'A change of the configuration while suspended is notified on resuming.',
        },
        {
          id: 'suspend-device-answers',
          binds: 'device',
          level: 'MUST',
          text: 'SUSPEND ends in being suspended or in DEVICE_NEEDS_RESET.',
        },
        {
          id: 'suspend-device-resumes',
          binds: 'device',
          level: 'MUST',
          text: 'Resuming ends in normal operation or in DEVICE_NEEDS_RESET.',
        },
        {
          id: 'suspend-device-drains',
          binds: 'device',
          level: 'SHOULD',
          text: 'Before SUSPEND shows, no more is consumed, what was begun is used, and the driver is notified of it.',
        },
      ],
    },
    {
      number: '6.1',
      title: 'Driver Requirements: Reserved Feature Bits',
      statements: [
        {
          id: 'reserved-driver-version-1',
          binds: 'driver',
          level: 'MUST',
          text: 'VERSION_1 is accepted where it is offered.',
        },
        {
          id: 'reserved-driver-access-platform',
          binds: 'driver',
          level: 'SHOULD',
          text: 'ACCESS_PLATFORM is accepted where it is offered.',
        },
        {
          id: 'reserved-driver-iommu',
          binds: 'driver',
          level: 'MUST',
          text: 'With ACCESS_PLATFORM the IOMMU is off, or set up for the addresses that are passed.',
          notApplicable:
            'Addresses come from whoever adds a buffer, and so does the set-up of an IOMMU: the queues pass them on.',
        },
        {
          id: 'reserved-driver-physical',
          binds: 'driver',
          level: 'MUST',
          text: 'Without ACCESS_PLATFORM the addresses are physical ones, not translated further.',
        },
        {
          id: 'reserved-driver-ring-packed',
          binds: 'driver',
          level: 'SHOULD',
          text: 'RING_PACKED is accepted where it is offered.',
        },
        {
          id: 'reserved-driver-order-platform',
          binds: 'driver',
          level: 'SHOULD',
          text: 'ORDER_PLATFORM is accepted where it is offered.',
        },
        {
          id: 'reserved-driver-order-barriers',
          binds: 'driver',
          level: 'MUST',
          text: 'With ORDER_PLATFORM the barriers are those that a hardware device needs.',
          notApplicable:
            'JavaScript memory is shared between agents on CPUs, never with a hardware device, and has one strength of barrier.',
        },
        {
          id: 'reserved-driver-sr-iov',
          binds: 'driver',
          level: 'MUST NOT',
          text: 'SR_IOV is not negotiated with a device that is not a PCI device with that capability.',
        },
        {
          id: 'reserved-driver-sr-iov-first',
          binds: 'driver',
          level: 'MUST',
          text: 'SR_IOV is negotiated before virtual functions are enabled.',
          notApplicable: NO_SR_IOV,
        },
        {
          id: 'reserved-driver-notif-config-data',
          binds: 'driver',
          level: 'SHOULD',
          text: 'NOTIF_CONFIG_DATA is accepted where it is offered.',
        },
      ],
    },
    {
      number: '6.2',
      title: 'Device Requirements: Reserved Feature Bits',
      statements: [
        {
          id: 'reserved-device-version-1',
          binds: 'device',
          level: 'MUST',
          text: 'VERSION_1 is offered.',
        },
        {
          id: 'reserved-device-access-platform',
          binds: 'device',
          level: 'SHOULD',
          text: 'ACCESS_PLATFORM is offered where the platform translates or limits what the device reaches.',
          notApplicable:
            'Whether the platform does so is known only to whoever makes the device; vring lets it be offered.',
        },
        {
          id: 'reserved-device-in-order',
          binds: 'device',
          level: 'MUST',
          text: 'With IN_ORDER buffers are used in the order in which they were made available.',
        },
        {
          id: 'reserved-device-add-in-card',
          binds: 'device',
          level: 'RECOMMENDED',
          text: 'A PCI card offers both ACCESS_PLATFORM and ORDER_PLATFORM.',
          notApplicable: 'vring has no hardware devices.',
        },
        {
          id: 'reserved-device-sr-iov-offered',
          binds: 'device',
          level: 'SHOULD',
          text: 'A PCI device with an SR-IOV capability structure offers SR_IOV.',
          notApplicable: NO_SR_IOV,
        },
        {
          id: 'reserved-device-sr-iov',
          binds: 'device',
          level: 'MUST NOT',
          text: 'Any other device does not offer SR_IOV.',
        },
      ],
    },
    {
      number: '6.3',
      title: 'Legacy Interface: Reserved Feature Bits',
      statements: [
        {
          id: 'reserved-device-legacy-empty',
          binds: 'device',
          level: 'MUST',
          text: 'With NOTIFY_ON_EMPTY a notification follows when the available buffers run out.',
          notApplicable: LEGACY,
        },
        {
          id: 'reserved-device-legacy-layout',
          binds: 'device',
          level: 'MUST',
          text: 'A transitional device offers ANY_LAYOUT and bit 30.',
          notApplicable: LEGACY,
        },
        {
          id: 'reserved-driver-legacy-layout',
          binds: 'driver',
          level: 'MUST',
          text: 'A transitional driver accepts ANY_LAYOUT and bit 30.',
          notApplicable: LEGACY,
        },
        {
          id: 'reserved-driver-legacy-unused',
          binds: 'driver',
          level: 'SHOULD NOT',
          text: 'Bit 30 is not negotiated.',
        },
      ],
    },
  ],
};
