/**
 * Device-independent feature bits (virtio 1.4, chapter 6). Bits of a device type (0–23, 50–127) are
 * plain numbers.
 */
export enum Feature {
  INDIRECT_DESC = 28,
  EVENT_IDX = 29,
  VERSION_1 = 32,
  ACCESS_PLATFORM = 33,
  RING_PACKED = 34,
  IN_ORDER = 35,
  ORDER_PLATFORM = 36,
  SR_IOV = 37,
  NOTIFICATION_DATA = 38,
  NOTIF_CONFIG_DATA = 39,
  RING_RESET = 40,
  ADMIN_VQ = 41,
  SUSPEND = 43,
}
