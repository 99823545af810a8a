"""A small bgzip VCF with the indexes that tabix and bcftools made for it."""

from __future__ import annotations

import base64
import struct
import zlib
from pathlib import Path

from tests.formats.conftest import EOF_BLOCK, bgzf_block

HEAD = (
    b"##fileformat=VCFv4.2\n##contig=<ID=20,length=63025520>\n##contig=<ID=chrX>\n##contig=<ID=21>\n"
    b'##FORMAT=<ID=GT,Number=1,Type=String,Description="Genotype">\n#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\ta\tb\tc\n'
)
PLACES = [("20", 1 + i * i * 37_000) for i in range(40)] + [("chrX", 500 + i * 131) for i in range(60)]
TBI = (
    "c-rmVze`nN9LMqJXqE&?sA<0qY^ZPuLof(~pyB3JG(=p7Y!RZxC7~$<m&C!LA^!vyq0q&tq@{*H8gep-Hm631^7Q?Dh^zfFf88JN1J{@5d(ZRS@AG}mBXT%;ZeJ^8bt$"
    "F%mC1bTl#Oez?u+UE(D0pfe(n3KN8`BO)YXu`KPaCxN4%K&bJD1+Z;kj=diJC11^N1T#1CfCzA-)8pL<=$`?wYPrX}LT+IN2q9TDG`Mf<w+>OgKm`MlLQR^*Mz7^CA|I"
    "{sWL-TKwu?OL+%X{+P$`E6PFu07&Ss)y?{p}Y$^-uX|oMSMPes?Ybo$oEGgKBWCgdGkcXU8in&OL;oKCe{6e@^pT!>Zkow#K+WrMt)R3i)z0rpDXV9oR)Vrt}_~s$5%W"
    "Z@g?=^c^PPSeWHDj98ld3XOW-lcUE<9-hJ}3>frGg<pt%_nMJ?Ot4nou9bNB-%Ex*5y#1=<Js-~N(y@q-E5BL!QgQDu%NHG9PjP<vJe$+!x{j{*h{o%2dj2nKow#4Gmp"
    "QFNuRrJY_@vii)W!2Wr+N2$dw#wtAJ4bz_u$aRwX=RLY*x?xcH6VZ7R%hxDsj3-T*MMraZ~zdIBu{0odWm90+zMISkX>lO}K#gi)(C%|DvxcB5sGi#*4U{_92$BLx>gZ"
    "Bw`gikBA%YVM4^;>wC%&aqIe?QAFH5dl9kh97M#5bsQ0^)>%ZXd6y9p|Dylq9}#h@`hUnEBJQ-^h=^ro5fQP%979B`QfCkmYt$t~MEs+Ewge&~{-1tE4I(1$v_GFu=jV"
    "c@bgw!8>gUs~k6%fpTWQ<az5|CYn?L"
)
CSI = (
    "c-n1LziX3G6g~HAtHmLRN?nC^P{|-If`ZhcbcmU(i%2@COBa_eEp#e^OG}4m65FITe}GG&Viu<=E;<O}pp$~Qb#ioQ-)HXO9!o!XoI`Hjk8|#MZ{}XjDgaL9F_A}+hdG"
    "wtxZ`LZlh^QgVe$UI+Lb(RZvr<^9f8jwf8@BDfClQuI{8z_p(fBpyI`ICz2mzMaK>VN@=+|6$Hi<j{%bPt!12R#U{UJi+-IZ*4BKF>vQA!L|8$A9eEyHFzpRrVINnLa;"
    "8#e!>hmw-|F526uE{#*ZGdadIJ=3CF&p5g7eGb)Ca3QkS#M3|lT-Ib8+ePKL#&hkcKqA|7Nky|9Pf6+dy_s)I?kogVxp_!{r=hvEhf4y`1%)jfM>Ek`L5%)y#5!-6Zv1"
    "qPKs=q<m{E>gY3^G@rRr~HC_VWWq)$!Vm^fy6J6IG=W~C~TKGrKK25YjtBLMu$6wv>(!|$><JElraf|)QsiWGCUYYcbeSVVStS0B?z5LUTESThiI;OUOb;%$38^_mM!A"
    "*Yu;keg}yJd3EcwhP{dS%i#_IbG#UYYpDoZjrjUMBnU-RN(|+hp=iQOC-5cx~c4bJ*XBESlt!IXO&`MUz~zPldlJRq=ovczEulH|2Q!7Eb<-04CX@7X"
)


def stored_block(text: bytes) -> bytes:
    """A BGZF block that is not compressed, so that its size is the same whatever library writes it."""
    data = b"\x01" + struct.pack("<HH", len(text), len(text) ^ 0xFFFF) + text
    head = struct.pack("<4BI2BH2BHH", 31, 139, 8, 4, 0, 0, 255, 6, ord("B"), ord("C"), 2, len(data) + 25)
    return head + data + struct.pack("<II", zlib.crc32(text), len(text))


def indexed(folder: Path, kind: str) -> Path:
    """A bgzip file of 100 records in blocks of 300 bytes, and its index."""
    calls = (b"0/0", b"0/1", b"1/1", b"./.")
    records = [
        b"%s\t%d\trs%d\tA\tC\t.\t.\t.\tGT\t%s\n" % (contig.encode(), position, i, b"\t".join(calls[(i + s) % 4] for s in range(3)))
        for i, (contig, position) in enumerate(PLACES)
    ]
    text, path = HEAD + b"".join(records), folder / "t.vcf.gz"
    path.write_bytes(b"".join(stored_block(text[at : at + 300]) for at in range(0, len(text), 300)) + EOF_BLOCK)
    index = zlib.decompress(base64.b85decode({"tbi": TBI, "csi": CSI}[kind]))
    (folder / f"t.vcf.gz.{kind}").write_bytes(bgzf_block(index) + EOF_BLOCK)
    return path
