import type { Chapter } from './statement.js';

const VENDOR = 'vring does not use vendor data.';
const WINDOW = 'vring accesses BARs themselves, never through the configuration space.';

/** virtio 1.4, 4.1: what binds a driver of devices with the modern interface. */
export const pci: Chapter = {
  title: 'Virtio over PCI, driver',
  sections: [
    {
      number: '4.1.2.2',
      title: 'Driver Requirements: PCI Device Discovery',
      statements: [
        {
          id: 'pci-driver-modern-ids',
          binds: 'driver',
          level: 'MUST',
          text: 'Functions of vendor 0x1AF4 are taken whose device ID is 0x1040 and the virtio device ID, up to 0x107F.',
        },
        {
          id: 'pci-driver-transitional-ids',
          binds: 'driver',
          level: 'MUST',
          text: 'So are those with the transitional device ID of their type, where it has one.',
        },
        {
          id: 'pci-driver-revision',
          binds: 'driver',
          level: 'MUST',
          text: 'The revision ID does not matter.',
        },
      ],
    },
    {
      number: '4.1.3.1',
      title: 'Driver Requirements: PCI Device Layout',
      statements: [
        {
          id: 'pci-driver-access-width',
          binds: 'driver',
          level: 'MUST',
          text: 'A field is accessed aligned and as wide as it is, one of 64 bits as halves of 32.',
        },
      ],
    },
    {
      number: '4.1.4.1',
      title: 'Driver Requirements: Virtio Structure PCI Capabilities',
      statements: [
        {
          id: 'pci-driver-reserved-type',
          binds: 'driver',
          level: 'MUST',
          text: 'A capability with a reserved `cfg_type` is passed over.',
        },
        {
          id: 'pci-driver-first-structure',
          binds: 'driver',
          level: 'SHOULD',
          text: 'Of several structures of a type the first that can be used is used.',
        },
        {
          id: 'pci-driver-longer-capability',
          binds: 'driver',
          level: 'MUST',
          text: '`cap_len` may be larger than the capability that is known.',
        },
        {
          id: 'pci-driver-reserved-bar',
          binds: 'driver',
          level: 'MUST',
          text: 'A capability with a reserved `bar` is passed over.',
        },
        {
          id: 'pci-driver-map-part',
          binds: 'driver',
          level: 'SHOULD',
          text: 'No more of a structure is mapped than is needed.',
          notApplicable: 'vring maps no BAR: whoever implements `PciFunction` does.',
        },
        {
          id: 'pci-driver-large-structure',
          binds: 'driver',
          level: 'MUST',
          text: 'A `length` that is larger than expected does no harm.',
        },
        {
          id: 'pci-driver-capabilities-read-only',
          binds: 'driver',
          level: 'MUST NOT',
          text: 'Nothing is written to a capability, except to the one for access through the configuration space.',
        },
      ],
    },
    {
      number: '4.1.4.3.2',
      title: 'Driver Requirements: Common configuration structure layout',
      statements: [
        {
          id: 'pci-driver-read-only-fields',
          binds: 'driver',
          level: 'MUST NOT',
          text: '`device_feature`, `num_queues`, `config_generation`, `queue_notify_off` and `queue_notif_config_data` are not written.',
        },
        {
          id: 'pci-driver-packed-size',
          binds: 'driver',
          level: 'MUST NOT',
          text: 'With RING_PACKED, `queue_size` is not set to 0.',
        },
        {
          id: 'pci-driver-split-size',
          binds: 'driver',
          level: 'MUST NOT',
          text: 'Without RING_PACKED, `queue_size` is set to a power of two only.',
        },
        {
          id: 'pci-driver-enable-last',
          binds: 'driver',
          level: 'MUST',
          text: 'A queue is enabled after its other fields are set.',
        },
        {
          id: 'pci-driver-reset-wait',
          binds: 'driver',
          level: 'MUST',
          text: 'After a reset of the device nothing goes on before `device_status` reads 0.',
        },
        {
          id: 'pci-driver-no-disable',
          binds: 'driver',
          level: 'MUST NOT',
          text: '0 is not written to `queue_enable`.',
        },
        {
          id: 'pci-driver-queue-reset-wait',
          binds: 'driver',
          level: 'MUST NOT',
          text: 'With RING_RESET, the reset of a queue is not taken for complete before `queue_reset` reads 0.',
        },
        {
          id: 'pci-driver-admin-queues',
          binds: 'driver',
          level: 'MUST',
          text: 'With ADMIN_VQ, administration virtqueues are configured by the indices in their range.',
          notApplicable: 'vring does not accept ADMIN_VQ.',
        },
      ],
    },
    {
      number: '4.1.4.5.2',
      title: 'Driver Requirements: ISR status capability',
      statements: [
        {
          id: 'pci-driver-isr-unused',
          binds: 'driver',
          level: 'SHOULD NOT',
          text: 'With MSI-X on, a queue interrupt is no reason to read the ISR status.',
        },
      ],
    },
    {
      number: '4.1.4.8.2',
      title: 'Driver Requirements: Vendor data capability',
      statements: [
        {
          id: 'pci-driver-vendor-data',
          binds: 'driver',
          level: 'SHOULD NOT',
          text: 'Vendor data is for debugging and reports only.',
          notApplicable: VENDOR,
        },
        {
          id: 'pci-driver-vendor-id',
          binds: 'driver',
          level: 'MUST',
          text: '`vendor_id` is looked at before vendor data is interpreted or written.',
          notApplicable: VENDOR,
        },
      ],
    },
    {
      number: '4.1.4.9.2',
      title: 'Driver Requirements: PCI configuration access capability',
      statements: [
        {
          id: 'pci-driver-window-aligned',
          binds: 'driver',
          level: 'MUST NOT',
          text: 'The window to a BAR is not set to an offset that is no multiple of its length.',
          notApplicable: WINDOW,
        },
        {
          id: 'pci-driver-window-range',
          binds: 'driver',
          level: 'MUST NOT',
          text: 'The window is not used unless it lies in a structure that another capability names.',
          notApplicable: WINDOW,
        },
      ],
    },
    {
      number: '4.1.5.1.1.1',
      title: 'Legacy Interface: A Note on Device Layout Detection',
      statements: [
        {
          id: 'pci-driver-transitional-layout',
          binds: 'driver',
          level: 'MUST',
          text: 'A transitional driver uses the legacy interface of a device without virtio capabilities.',
          notApplicable: 'vring is no transitional driver.',
        },
        {
          id: 'pci-driver-no-capabilities',
          binds: 'driver',
          level: 'MUST',
          text: 'A driver that is not transitional takes a device without virtio capabilities for a legacy one, and fails gracefully.',
        },
      ],
    },
    {
      number: '4.1.5.1.2.2',
      title: 'Driver Requirements: MSI-X Vector Configuration',
      statements: [
        {
          id: 'pci-driver-any-vectors',
          binds: 'driver',
          level: 'MUST',
          text: 'Any size of the MSI-X table, 1 to 2048 entries, is supported.',
        },
        {
          id: 'pci-driver-vector-range',
          binds: 'driver',
          level: 'MUST NOT',
          text: 'No event is mapped to a vector outside the table.',
        },
        {
          id: 'pci-driver-vector-verify',
          binds: 'driver',
          level: 'MUST',
          text: 'The vector field is read back after it was written, to see whether the device mapped it.',
        },
      ],
    },
    {
      number: '4.1.5.2.1',
      title: 'Driver Requirements: Available Buffer Notifications',
      statements: [
        {
          id: 'pci-driver-notify-short',
          binds: 'driver',
          level: 'MUST',
          text: 'Without NOTIFICATION_DATA a notification has 16 bits.',
        },
        {
          id: 'pci-driver-notify-long',
          binds: 'driver',
          level: 'MUST',
          text: 'With NOTIFICATION_DATA it has 32 bits.',
        },
        {
          id: 'pci-driver-notify-index',
          binds: 'driver',
          level: 'MUST',
          text: 'Without NOTIFICATION_DATA and NOTIF_CONFIG_DATA it is the index of the queue.',
        },
        {
          id: 'pci-driver-notify-data-index',
          binds: 'driver',
          level: 'MUST',
          text: 'With NOTIFICATION_DATA alone its `vq_index` is that index.',
        },
        {
          id: 'pci-driver-notify-config',
          binds: 'driver',
          level: 'MUST',
          text: 'With NOTIF_CONFIG_DATA alone it is `queue_notif_config_data`.',
        },
        {
          id: 'pci-driver-notify-data-config',
          binds: 'driver',
          level: 'MUST',
          text: 'With both its `vq_notify_config_data` is that value.',
        },
      ],
    },
    {
      number: '4.1.5.4.2',
      title: 'Driver Requirements: Notification of Device Configuration Changes',
      statements: [
        {
          id: 'pci-driver-shared-interrupt',
          binds: 'driver',
          level: 'MUST',
          text: 'One interrupt may stand for used buffers and for a change of the configuration.',
        },
      ],
    },
  ],
};
