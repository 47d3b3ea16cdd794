"""The verbs, as a grammar book prints them. Only the future, always regular, is computed.

Whoever doubts a form looks here. Spanish rows run yo, tú, él/ella, nosotros, vosotros, ellos/ellas.
"""

from dataclasses import dataclass

Row = tuple[str, ...]  # six words, one for each person

FUTURE_ENDINGS = ("é", "ás", "á", "emos", "éis", "án")


@dataclass(frozen=True)
class Verb:
    """One verb in both languages; each field is a row of its table, the words split by spaces.

    english: base, third person singular, past, participle, gerund (5 words).
    spanish: infinitive, participle, gerund (3 words).
    present, past: one Spanish word for each person (6 words each); the past is the preterite.
    future: what stands before the future's endings, where that is not the infinitive.
    """

    english: str
    spanish: str
    present: str
    past: str
    future: str = ""

    @property
    def name(self) -> str:
        """The English base form, which names the verb."""
        return self.english.split()[0]

    @property
    def infinitive(self) -> str:
        """The Spanish infinitive."""
        return self.spanish.split()[0]

    def english_rows(self) -> dict[str, Row]:
        """Every English row by name, six words each, most of them the same word six times."""
        base, third, past, participle, gerund = self.english.split()
        return {
            "base": (base,) * 6,
            "present": (base, base, third, base, base, base),
            "past": (past,) * 6,
            "participle": (participle,) * 6,
            "gerund": (gerund,) * 6,
        }

    def spanish_rows(self) -> dict[str, Row]:
        """Every Spanish row by name, six words each."""
        infinitive, participle, gerund = self.spanish.split()
        stem = self.future or infinitive
        return {
            "base": (infinitive,) * 6,
            "present": tuple(self.present.split()),
            "past": tuple(self.past.split()),
            "future": tuple(stem + ending for ending in FUTURE_ENDINGS),
            "participle": (participle,) * 6,
            "gerund": (gerund,) * 6,
        }


# A verb is a block of its rows: English, Spanish, present, past, and, where it has one, the stem of
# its future.
_TABLE = """\
speak speaks spoke spoken speaking
hablar hablado hablando
hablo hablas habla hablamos habláis hablan
hablé hablaste habló hablamos hablasteis hablaron

eat eats ate eaten eating
comer comido comiendo
como comes come comemos coméis comen
comí comiste comió comimos comisteis comieron

live lives lived lived living
vivir vivido viviendo
vivo vives vive vivimos vivís viven
viví viviste vivió vivimos vivisteis vivieron

drink drinks drank drunk drinking
beber bebido bebiendo
bebo bebes bebe bebemos bebéis beben
bebí bebiste bebió bebimos bebisteis bebieron

write writes wrote written writing
escribir escrito escribiendo
escribo escribes escribe escribimos escribís escriben
escribí escribiste escribió escribimos escribisteis escribieron

open opens opened opened opening
abrir abierto abriendo
abro abres abre abrimos abrís abren
abrí abriste abrió abrimos abristeis abrieron

go goes went gone going
ir ido yendo
voy vas va vamos vais van
fui fuiste fue fuimos fuisteis fueron

come comes came come coming
venir venido viniendo
vengo vienes viene venimos venís vienen
vine viniste vino vinimos vinisteis vinieron
vendr

make makes made made making
hacer hecho haciendo
hago haces hace hacemos hacéis hacen
hice hiciste hizo hicimos hicisteis hicieron
har

say says said said saying
decir dicho diciendo
digo dices dice decimos decís dicen
dije dijiste dijo dijimos dijisteis dijeron
dir

see sees saw seen seeing
ver visto viendo
veo ves ve vemos veis ven
vi viste vio vimos visteis vieron

give gives gave given giving
dar dado dando
doy das da damos dais dan
di diste dio dimos disteis dieron

bring brings brought brought bringing
traer traído trayendo
traigo traes trae traemos traéis traen
traje trajiste trajo trajimos trajisteis trajeron

run runs ran run running
correr corrido corriendo
corro corres corre corremos corréis corren
corrí corriste corrió corrimos corristeis corrieron

sing sings sang sung singing
cantar cantado cantando
canto cantas canta cantamos cantáis cantan
canté cantaste cantó cantamos cantasteis cantaron

sleep sleeps slept slept sleeping
dormir dormido durmiendo
duermo duermes duerme dormimos dormís duermen
dormí dormiste durmió dormimos dormisteis durmieron

play plays played played playing
jugar jugado jugando
juego juegas juega jugamos jugáis juegan
jugué jugaste jugó jugamos jugasteis jugaron

think thinks thought thought thinking
pensar pensado pensando
pienso piensas piensa pensamos pensáis piensan
pensé pensaste pensó pensamos pensasteis pensaron

begin begins began begun beginning
empezar empezado empezando
empiezo empiezas empieza empezamos empezáis empiezan
empecé empezaste empezó empezamos empezasteis empezaron

buy buys bought bought buying
comprar comprado comprando
compro compras compra compramos compráis compran
compré compraste compró compramos comprasteis compraron

teach teaches taught taught teaching
enseñar enseñado enseñando
enseño enseñas enseña enseñamos enseñáis enseñan
enseñé enseñaste enseñó enseñamos enseñasteis enseñaron

choose chooses chose chosen choosing
elegir elegido eligiendo
elijo eliges elige elegimos elegís eligen
elegí elegiste eligió elegimos elegisteis eligieron
"""

VERBS = tuple(Verb(*block.strip().split("\n")) for block in _TABLE.split("\n\n"))
